"""Binds the imports of a guest: to the functions of its Host, and to an empty WASI.

WASI is wasmtime's own with nothing in it: no files, no environment, no arguments, no sockets, and
output that goes nowhere. Clocks and random numbers are there. `poll_oneoff` is the one exception:
wasmtime would sleep in it past every deadline, so it answers that it is not supported.

A host function must not raise: wasmtime for Python keeps the last exception of *any* thread, and
hands it to whichever guest traps next. What goes wrong is noted in the run instead, its fuel is
taken away, and whatever it returns afterwards is not looked at.
"""

from collections.abc import Callable
from ctypes import addressof, memmove, string_at
from threading import local
from time import sleep
from typing import TypeAlias

import wasmtime

from flo.model.errors import FloError
from flo.wasm.abi import MEMORY_EXPORT, Fault, Span, unsigned
from flo.wasm.engine import WasmEngine
from flo.wasm.host import SIGNATURES, Host, Memory
from flo.wasm.outcome import TrapKind

HOST_MODULE = "flo"
WASI_MODULE = "wasi_snapshot_preview1"
WASI_NOT_SUPPORTED = 58
CALLS_MAX = 10_000
CALLS_AT_ONCE_MAX = 64
CALLS_PER_PAUSE = 2
PAUSE_S = 0.001

HostFunction: TypeAlias = Callable[..., int | None]
"""Called with the Host, its Memory, and the numbers that the guest has given."""


class Visit:
    """One guest in its store, with its host."""

    def __init__(self, store: wasmtime.Store, host: Host) -> None:
        self.store = store
        self.host = host
        self.memory: GuestMemory | None = None
        """Known from the first call on."""
        self.calls_count = 0
        self.fault: Fault | None = None

    def recall(self, caller: wasmtime.Caller) -> "GuestMemory":
        """The memory of whoever calls; it is the same every time."""
        memory = caller[MEMORY_EXPORT]
        assert isinstance(memory, wasmtime.Memory)
        self.memory = GuestMemory(self.store, memory)
        return self.memory

    def count_call(self) -> None:
        """Slow down a guest that calls often: every call takes the interpreter from others.

        With four of them at it, the loop still has most of the interpreter.
        """
        self.calls_count += 1
        if self.calls_count > CALLS_MAX:
            raise Fault(TrapKind.LIMIT_EXCEEDED, f"expected at most {CALLS_MAX} calls of the host")
        if self.calls_count > CALLS_AT_ONCE_MAX and self.calls_count % CALLS_PER_PAUSE == 0:
            sleep(PAUSE_S)

    def fail(self, fault: Fault) -> None:
        """End the run; the first reason stands."""
        if self.fault is None:
            self.fault = fault
        self.store.set_fuel(0)


class GuestMemory:
    """The memory of a guest in wasmtime."""

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = memory

    def length(self) -> int:
        return self._memory.data_len(self._store)

    def read(self, span: Span) -> bytes:
        if span.length == 0:
            return b""
        return string_at(self._address() + span.pointer, span.length)

    def write(self, pointer: int, data: bytes) -> None:
        if data:
            memmove(self._address() + pointer, data, len(data))

    def _address(self) -> int:
        """Where it begins; it moves when it grows."""
        return addressof(self._memory.data_ptr(self._store).contents)


class Links:
    """What can be imported, bound once for all guests of an engine."""

    def __init__(self, engine: WasmEngine) -> None:
        self._here = local()
        self._store = wasmtime.Store(engine.wasmtime)
        self._linker = wasmtime.Linker(engine.wasmtime)
        self._linker.define_wasi()
        self._linker.allow_shadowing = True
        self._define(WASI_MODULE, "poll_oneoff", "(i32, i32, i32, i32) -> i32", _refuse_to_poll)
        for name, function in _FUNCTIONS.items():
            self._define(HOST_MODULE, name, SIGNATURES[name], function)

    def signature(self, module: str, name: str) -> str | None:
        """The signature of what can be imported under this name; None if there is nothing."""
        if module == HOST_MODULE:
            return SIGNATURES.get(name)
        if module != WASI_MODULE:
            return None
        try:
            function = self._linker.get(self._store, module, name)
        except wasmtime.WasmtimeError:
            return None
        assert isinstance(function, wasmtime.Func)
        return signature_of(function.type(self._store))

    def bind(self, module: wasmtime.Module) -> wasmtime.InstancePre:
        return self._linker.instantiate_pre(module)

    def visit(self, visit: Visit | None) -> None:
        """From now on this thread runs that guest."""
        self._here.visit = visit

    def _define(self, module: str, name: str, signature: str, function: HostFunction) -> None:
        guarded = self._guarded(function, " -> i32" in signature)
        self._linker.define_func(module, name, _type_of(signature), guarded, access_caller=True)

    def _guarded(
        self, function: HostFunction, has_result: bool
    ) -> Callable[..., wasmtime.Val | None]:
        """The function for wasmtime; a run that is over gets −1 until it has stopped."""

        def guarded(caller: wasmtime.Caller, *numbers: int) -> wasmtime.Val | None:
            visit: Visit = self._here.visit
            result: int | None = -1
            try:
                if visit.fault is None:
                    visit.count_call()
                    result = function(visit.host, visit.memory or visit.recall(caller), *numbers)
            except Fault as fault:
                visit.fail(fault)
            except FloError as error:
                visit.fail(Fault(TrapKind.HOST_FAILED, error.message))
            except Exception as error:
                visit.fail(Fault(TrapKind.HOST_FAILED, f"a mistake of ours: {error!r}"))
            return wasmtime.Val.i32(result or 0) if has_result else None

        return guarded


def signature_of(function: wasmtime.FuncType) -> str:
    """For example `(i32, i32) -> i64`."""
    results = ", ".join(map(str, function.results))
    arguments = ", ".join(map(str, function.params))
    return f"({arguments}) -> {results if len(function.results) == 1 else f'({results})'}"


def _type_of(signature: str) -> wasmtime.FuncType:
    arguments, _, results = signature.partition(" -> ")
    return wasmtime.FuncType(_types(arguments), _types(results))


def _types(listed: str) -> list[wasmtime.ValType]:
    assert set(listed.strip("()").split(", ")) <= {"i32", ""}
    return [wasmtime.ValType.i32()] * listed.count("i32")


def _span(pointer: int, length: int) -> Span:
    return Span(unsigned(pointer), unsigned(length))


def _log(host: Host, memory: Memory, level: int, *message: int) -> None:
    host.log(memory, level, _span(*message))


def _kv_get(host: Host, memory: Memory, *numbers: int) -> int:
    return host.kv_get(memory, _span(*numbers[:2]), _span(*numbers[2:]))


def _kv_set(host: Host, memory: Memory, *numbers: int) -> int:
    return host.kv_set(memory, _span(*numbers[:2]), _span(*numbers[2:]))


def _kv_delete(host: Host, memory: Memory, *key: int) -> int:
    return host.kv_delete(memory, _span(*key))


def _refuse_to_poll(host: Host, memory: Memory, *numbers: int) -> int:
    return WASI_NOT_SUPPORTED


_FUNCTIONS: dict[str, HostFunction] = {
    "log": _log,
    "kv_get": _kv_get,
    "kv_set": _kv_set,
    "kv_delete": _kv_delete,
}
