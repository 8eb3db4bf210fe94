"""Binds what a guest imports to what it may have: the functions of its Host, and a bare WASI.

WASI is wasmtime's own with nothing in it: no files, no environment, no arguments, no sockets, and
output that goes nowhere. Clocks and dice are there. `poll_oneoff` is the one exception: wasmtime
would sleep in it past every deadline, so it answers that it is not supported.

A host function must not raise: wasmtime for Python keeps the last exception of *any* thread, and
hands it to whichever guest traps next. What goes wrong is noted in the run instead, its fuel is
taken away, and whatever it returns afterwards is not looked at.
"""

from collections.abc import Callable
from ctypes import memmove
from threading import local
from typing import Any

import wasmtime

from flo.model.errors import FloError
from flo.wasm.abi import MEMORY_EXPORT, Fault, Span, unsigned
from flo.wasm.engine import Engine
from flo.wasm.host import SIGNATURES, Host, Memory
from flo.wasm.outcome import Kind

HOST_MODULE = "flo"
WASI_MODULE = "wasi_snapshot_preview1"
WASI_NOT_SUPPORTED = 58


class Visit:
    """One guest in its store, with its host."""

    def __init__(self, store: wasmtime.Store, host: Host) -> None:
        self.store = store
        self.host = host
        self.fault: Fault | None = None

    def fail(self, fault: Fault) -> None:
        """End the run; the first reason stands."""
        if self.fault is None:
            self.fault = fault
        self.store.set_fuel(0)


class GuestMemory:
    """The memory of a guest in wasmtime."""

    def __init__(self, store: Any, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = memory

    def length(self) -> int:
        return self._memory.data_len(self._store)

    def read(self, span: Span) -> bytes:
        if span.length == 0:
            return b""
        return bytes(self._memory.get_buffer_ptr(self._store, span.length, span.pointer))

    def write(self, pointer: int, data: bytes) -> None:
        if data:
            memmove(self._memory.get_buffer_ptr(self._store, len(data), pointer), data, len(data))


class Links:
    """What can be imported, bound once for all guests of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._here = local()
        self._store = wasmtime.Store(engine.wasmtime)
        self._linker = wasmtime.Linker(engine.wasmtime)
        self._linker.define_wasi()
        self._linker.allow_shadowing = True
        self._define(WASI_MODULE, "poll_oneoff", "(i32, i32, i32, i32) -> i32", _refuse_to_poll)
        for name, (function, failed) in _FUNCTIONS.items():
            self._define(HOST_MODULE, name, SIGNATURES[name], self._guarded(function, failed))

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

    def _define(
        self, module: str, name: str, signature: str, function: Callable[..., int | None]
    ) -> None:
        self._linker.define_func(module, name, _type_of(signature), function, access_caller=True)

    def _guarded(
        self, function: Callable[..., int | None], failed: int | None
    ) -> Callable[..., int | None]:
        def guarded(caller: wasmtime.Caller, *numbers: int) -> int | None:
            visit: Visit = self._here.visit
            if visit.fault is not None:
                return failed
            try:
                memory = caller[MEMORY_EXPORT]
                assert isinstance(memory, wasmtime.Memory)
                return function(visit.host, GuestMemory(caller, memory), *numbers)
            except Fault as fault:
                visit.fail(fault)
            except FloError as error:
                visit.fail(Fault(Kind.HOST_FAILED, error.message))
            except Exception as error:
                visit.fail(Fault(Kind.HOST_FAILED, f"a mistake of ours: {error!r}"))
            return failed

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


def _refuse_to_poll(caller: wasmtime.Caller, *numbers: int) -> int:
    return WASI_NOT_SUPPORTED


_FUNCTIONS: dict[str, tuple[Callable[..., int | None], int | None]] = {
    "log": (_log, None),
    "kv_get": (_kv_get, -1),
    "kv_set": (_kv_set, -1),
    "kv_delete": (_kv_delete, -1),
}
"""Each with what a run that is over hears."""
