"""The wasmtime engine that guests run in, and the thread that ends them at their deadline.

    start ──▸ the ticker counts the engine's epoch up, every 10 ms while a guest runs
    enter ──▸ a run, with the tick at which it is over
    stop  ──▸ nothing more may enter; the epoch races ahead until the last guest is thrown out

A guest looks at the epoch at every loop and call, so it ends within a tick or two of its deadline
however it spins. A ticker that was kept from running catches up, and nobody's time is shortened by
that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from time import monotonic_ns

import wasmtime

from flo.model.errors import Unavailable
from flo.wasm.short_calls import keep_the_interpreter

TICK_NS = 10_000_000
STACK_LENGTH_MAX = 512 * 1024
"""Of a guest; the thread under it has 1 MiB or more on every platform."""

_OFF = (
    "wasm_threads",
    "wasm_multi_memory",
    "wasm_memory64",
    "wasm_gc",
    "wasm_function_references",
    "wasm_exceptions",
    "wasm_component_model",
    "wasm_custom_page_sizes",
    "wasm_stack_switching",
)
"""What guests of this ABI have no use for is not there to be attacked."""


class GuestPace:
    """How many ticks the epoch has been given since the first of the present guests came."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self.ticks = 0

    def owed(self, now_ns: int) -> int:
        """The ticks by which the epoch is behind."""
        return (now_ns - self._since_ns) // TICK_NS - self.ticks

    def until(self, timeout_ms: int, now_ns: int) -> int:
        """The ticks to a deadline, with those that will be made up for before it."""
        return self.owed(now_ns) + -(-timeout_ms * 1_000_000 // TICK_NS) + 1


class WasmEngine:
    """Shared by all guests of a process; modules are compiled for it."""

    def __init__(self) -> None:
        keep_the_interpreter()
        self.wasmtime = wasmtime.Engine(engine_config())
        self._changed = Condition()
        self._started = False
        self._stopping = False
        self._running: dict[int, int] = {}
        """The ticks that each run may last."""
        self._entered = 0
        self._idle = False
        """The ticker sleeps until it is called."""
        self._pace = GuestPace(monotonic_ns())
        self._ticker: Thread | None = None

    @property
    def stopping(self) -> bool:
        return self._stopping

    def start(self) -> None:
        """May be called twice; an engine that was stopped stays so."""
        with self._changed:
            if self._started or self._stopping:
                return
            self._started = True
            self._ticker = Thread(target=self._tick, name="flo-wasm-ticker", daemon=True)
            self._ticker.start()

    def stop(self) -> None:
        """Throw out every guest, and wait until the last is gone; may be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._ticker is not None:
            self._ticker.join()

    @contextmanager
    def enter(self, timeout_ms: int) -> Iterator[int]:
        """A run in this engine: the ticks from the present epoch to its deadline."""
        with self._changed:
            if not self._started or self._stopping:
                raise Unavailable("the WASM engine is not running", code="wasm_stopped")
            if not self._running:
                self._pace = GuestPace(monotonic_ns())
            ticks = self._pace.until(timeout_ms, monotonic_ns())
            self._entered += 1
            ticket = self._entered
            self._running[ticket] = ticks
            if self._idle:
                self._changed.notify_all()
        try:
            yield ticks
        finally:
            with self._changed:
                del self._running[ticket]

    def _tick(self) -> None:
        with self._changed:
            while not self._stopping:
                if self._running:
                    self._advance(self._pace.owed(monotonic_ns()))
                    self._changed.wait(TICK_NS / 1_000_000_000)
                else:
                    self._idle = True
                    self._changed.wait()
                    self._idle = False
            while self._running:
                # A run that has entered may yet have to set its deadline: hence again and again.
                self._advance(max(self._running.values()))
                self._changed.wait(TICK_NS / 1_000_000_000)

    def _advance(self, ticks: int) -> None:
        for _ in range(ticks):
            self.wasmtime.increment_epoch()
        self._pace.ticks += ticks


def engine_config() -> wasmtime.Config:
    """The same for whoever compiles a module and whoever runs it."""
    config = wasmtime.Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    config.max_wasm_stack = STACK_LENGTH_MAX
    config.parallel_compilation = False  # one module never takes every core
    config.wasm_relaxed_simd_deterministic = True
    for feature in _OFF:
        setattr(config, feature, False)
    return config
