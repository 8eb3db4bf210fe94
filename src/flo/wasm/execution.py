"""Runs one guest, once, to an outcome.

    store (fuel, deadline, limits) ──▸ instance ──▸ _initialize, init ──▸ alloc, input ──▸ handle
                                                                                             │
        Trapped ◂── whatever goes wrong anywhere on the way                 Finished ◂── output

Every call has an instance of its own, so one run leaves nothing behind for the next; `dealloc` is
therefore not called. Nothing that a guest does comes out of here as an exception.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import wasmtime
from msgspec.structs import replace

from flo.model.errors import Unavailable
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.wasm.abi import (
    ENTRYPOINT_DEFAULT,
    MEMORY_EXPORT,
    MEMORY_PAGES_DEFAULT,
    PAGE_LENGTH,
    Fault,
    Span,
    check_span,
    fault_of_code,
    unpack,
    unsigned,
)
from flo.wasm.engine import WasmEngine
from flo.wasm.exports import Exports
from flo.wasm.host import Host, Reader, Stored
from flo.wasm.linking import GuestMemory, Visit
from flo.wasm.module import Module, Modules
from flo.wasm.outcome import RETRIED, Finished, Outcome, TrapKind, Trapped

TIMEOUT_MS_DEFAULT = 30_000
TIMEOUT_MS_MAX = 600_000
FUEL_PER_MS = 10_000_000
"""More than a machine burns in that time: fuel bounds a guest whose clock has been held up."""
TABLE_ELEMENTS_MAX = 65_536
TABLES_MAX = 16
OUTPUT_LENGTH_MAX = PAYLOAD_LENGTH_MAX
DESCRIPTION_LENGTH_MAX = 65_536
DESCRIBE_TIMEOUT_MS = 1_000
MESSAGE_LENGTH_MAX = 1_024
FRAMES_SHOWN_MAX = 3
NAME_LENGTH_MAX = 100

_KINDS: dict[wasmtime.TrapCode | None, tuple[TrapKind, str]] = {
    wasmtime.TrapCode.STACK_OVERFLOW: (TrapKind.STACK_OVERFLOW, "its stack overflowed"),
    wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS: (
        TrapKind.OUT_OF_BOUNDS,
        "it reached out of its memory",
    ),
    wasmtime.TrapCode.UNREACHABLE: (
        TrapKind.UNREACHABLE,
        "it gave up (unreachable code was reached)",
    ),
    wasmtime.TrapCode.OUT_OF_FUEL: (TrapKind.OUT_OF_FUEL, "it ran out of fuel"),
}

_MARKS = {
    "exceeds": TrapKind.LIMIT_EXCEEDED,
    "limit exceeded": TrapKind.LIMIT_EXCEEDED,
    "out of bounds": TrapKind.OUT_OF_BOUNDS,
}
"""Texts of errors that have no code: limits of a store, and pointers handed to WASI."""


class GuestCall(NamedTuple):
    """One call of a guest, and the bounds on it."""

    module: Module
    input: bytes = b""
    entrypoint: str = ENTRYPOINT_DEFAULT
    timeout_ms: int = TIMEOUT_MS_DEFAULT
    """Of the whole call, from its first instruction. Nobody has more than ten minutes: 0, which
    elsewhere means for ever, and everything above come to that."""
    memory_pages_max: int = MEMORY_PAGES_DEFAULT
    fuel_max: int | None = None
    """Instructions, more or less; None leaves it to the timeout."""


class GuestExecutor:
    """Runs guests in the calling thread; may be used by any number of threads."""

    def __init__(self, engine: WasmEngine, modules: Modules) -> None:
        self._engine = engine
        self._links = modules.links

    def execute(self, call: GuestCall, reader: Reader) -> Outcome:
        """Call the guest's entrypoint with the input."""
        return self._contained(call, Host(reader), _handle)

    def describe(self, module: Module, memory_pages_max: int = MEMORY_PAGES_DEFAULT) -> Outcome:
        """What the module says of itself; empty if it says nothing. It finds no key."""
        if "describe" not in module.exports:
            return Finished(output=b"")
        call = GuestCall(
            module=module, timeout_ms=DESCRIBE_TIMEOUT_MS, memory_pages_max=memory_pages_max
        )
        outcome = self._contained(call, Host(_NoKeys()), _describe)
        return replace(outcome, effects=()) if isinstance(outcome, Finished) else outcome

    def _contained(self, call: GuestCall, host: Host, talk: Callable[["_Guest"], bytes]) -> Outcome:
        """Talk to a fresh guest, and make an outcome of whatever it does."""
        try:
            with self._engine.enter(_timeout_ms(call)) as ticks:
                output, fuel_used = self._visited(call, host, ticks, talk)
        except Fault as fault:
            return _trapped(fault, host)
        except Unavailable as error:
            return _trapped(Fault(TrapKind.INTERRUPTED, error.message), host)
        except Exception as error:
            return _trapped(Fault(TrapKind.HOST_FAILED, f"a mistake of ours: {error!r}"), host)
        return Finished(
            output=output,
            effects=host.effects,
            reads=host.reads,
            logs=tuple(host.logs),
            logs_dropped=host.logs_dropped,
            fuel_used=fuel_used,
        )

    def _visited(
        self, call: GuestCall, host: Host, ticks: int, talk: Callable[["_Guest"], bytes]
    ) -> tuple[bytes, int]:
        """The output and the fuel it took; a Fault if there is no output."""
        fuel = _timeout_ms(call) * FUEL_PER_MS if call.fuel_max is None else call.fuel_max
        with _store(self._engine, call, ticks, fuel) as store:
            visit = Visit(store, host)
            self._links.visit(visit)
            fault = None
            try:
                output = talk(_Guest(store, call))
            except Fault as broken:
                fault = broken
            except wasmtime.WasmtimeError as error:
                fault = _fault_of_error(error)
            except wasmtime.Trap as trap:
                fault = _fault_of_trap(trap, self._engine.stopping)
            finally:
                self._links.visit(None)
            fault = visit.fault or fault  # what the host noted is the cause of what came after
            if fault is not None:
                raise fault
            return output, fuel - store.get_fuel()


class _Guest:
    """A fresh instance of a module, made ready for its call."""

    def __init__(self, store: wasmtime.Store, call: GuestCall) -> None:
        self.call = call
        self._store = store
        exports = Exports(store, call.module.ready.instantiate(store))
        self.ask = exports.ask
        self._memory = GuestMemory(store, exports.memory(MEMORY_EXPORT))
        if "_initialize" in call.module.exports:
            exports.tell("_initialize")
        if "init" in call.module.exports and (code := self.ask("init")) != 0:
            raise Fault(TrapKind.INIT_FAILED, f"expected init to return 0, got {code}")

    def give(self, data: bytes) -> Span:
        """Put data where the guest wants to have it; even nothing has a place that is not null."""
        span = Span(unsigned(self.ask("alloc", max(1, len(data)))), len(data))
        if span.pointer == 0:
            raise Fault(
                TrapKind.ALLOCATION_FAILED, f"alloc found no room for {len(data)} bytes of input"
            )
        check_span(span, self._memory.length(), "room for the input")
        self._memory.write(span.pointer, data)
        return span

    def take(self, packed: int, function: str, length_max: int) -> bytes:
        """What a packed result stands for."""
        if packed < 0:
            raise fault_of_code(packed, function)
        span = unpack(packed)
        check_span(span, self._memory.length(), "an output")
        if span.length > length_max:
            raise Fault(
                TrapKind.OUTPUT_TOO_LARGE,
                f"expected an output of at most {length_max} bytes, got {span.length}",
            )
        return self._memory.read(span)


class _NoKeys:
    def read(self, key: str) -> Stored | None:
        return None


def _handle(guest: _Guest) -> bytes:
    given = guest.give(guest.call.input)
    packed = guest.ask(guest.call.entrypoint, given.pointer, given.length)
    return guest.take(packed, guest.call.entrypoint, OUTPUT_LENGTH_MAX)


def _describe(guest: _Guest) -> bytes:
    return guest.take(guest.ask("describe"), "describe", DESCRIPTION_LENGTH_MAX)


def _timeout_ms(call: GuestCall) -> int:
    return min(call.timeout_ms or TIMEOUT_MS_MAX, TIMEOUT_MS_MAX)


@contextmanager
def _store(engine: WasmEngine, call: GuestCall, ticks: int, fuel: int) -> Iterator[wasmtime.Store]:
    """A store with bounds on everything; its memory is given back at the end."""
    with wasmtime.Store(engine.wasmtime) as store:
        store.set_limits(
            memory_size=call.memory_pages_max * PAGE_LENGTH,
            table_elements=TABLE_ELEMENTS_MAX,
            instances=1,
            tables=TABLES_MAX,
            memories=1,
        )
        store.set_fuel(fuel)
        store.set_epoch_deadline(ticks)
        if call.module.uses_wasi:
            store.set_wasi(wasmtime.WasiConfig())
        yield store


def _fault_of_trap(trap: wasmtime.Trap, stopping: bool) -> Fault:
    if trap.trap_code is wasmtime.TrapCode.INTERRUPT:
        if stopping:
            return Fault(TrapKind.INTERRUPTED, "the server stopped while the guest was running")
        return Fault(TrapKind.TIMED_OUT, "the guest ran longer than its timeout")
    said = trap.message.rpartition("wasm trap: ")[2].strip() or "a trap"
    kind, meaning = _KINDS.get(trap.trap_code, (TrapKind.TRAP, f"it trapped ({said})"))
    names = [frame.func_name for frame in trap.frames[:FRAMES_SHOWN_MAX]]
    where = " ← ".join(repr(name[:NAME_LENGTH_MAX]) for name in names if name)
    return Fault(kind, f"the guest failed: {meaning}{' in ' if where else ''}{where}")


def _fault_of_error(error: wasmtime.WasmtimeError) -> Fault:
    if isinstance(error, wasmtime.ExitTrap):
        return Fault(TrapKind.EXITED, f"the guest exited with {error.code} instead of returning")
    said = str(error).strip().splitlines()[-1].strip()
    kind = next((kind for mark, kind in _MARKS.items() if mark in said), TrapKind.TRAP)
    return Fault(kind, f"the guest failed: {said}")


def _trapped(fault: Fault, host: Host) -> Trapped:
    return Trapped(
        kind=fault.kind,
        message=fault.message[:MESSAGE_LENGTH_MAX],
        retry=fault.kind in RETRIED,
        logs=tuple(host.logs),
        logs_dropped=host.logs_dropped,
    )
