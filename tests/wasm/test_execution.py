import resource
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.wasm.engine import WasmEngine
from flo.wasm.execution import DESCRIPTION_LENGTH_MAX, GuestCall, GuestExecutor
from flo.wasm.host import LOGS_MAX
from flo.wasm.module import Modules
from flo.wasm.outcome import RETRIED, Finished, GuestDelete, GuestPut, LogLine, TrapKind, Trapped
from wasm.guests import ECHO, FOREVER, PACKED_INPUT, Keys, OutOfReach, answer_of, guest
from wasm.hostile import ATTACKS, TIMEOUT_MS

WRITES = """
  (i32.store8 (i32.const 0) (i32.const 97))  ;; "a"
  (i32.store8 (i32.const 1) (i32.const 98))  ;; "b"
  (drop (call $kv_set (i32.const 0) (i32.const 1) (local.get $ptr) (local.get $len)))
  (drop (call $kv_delete (i32.const 1) (i32.const 1)))
  (call $log (i32.const 2) (local.get $ptr) (local.get $len))
"""


@pytest.mark.parametrize("input", [b"", b"x", b'{"age": 25}', bytes(range(256)) * 200])
def test_the_output_comes_back(run, input):
    outcome = run(ECHO, input)

    assert isinstance(outcome, Finished)
    assert outcome.output == input
    assert outcome.fuel_used > 0


def test_an_output_of_nothing_is_empty(run):
    assert run(guest("(i64.const 0)"), b"x").output == b""


def test_another_entrypoint_is_called(run):
    wasm = guest(
        more=f"""(func (export "other") (param $ptr i32) (param $len i32) (result i64)
          {PACKED_INPUT})"""
    )

    assert run(wasm, b"hello", entrypoint="other").output == b"hello"


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_contained(run, name):
    attack = ATTACKS[name]
    outcome = run(attack.wasm, b"input", **attack.bounds())

    assert isinstance(outcome, Trapped), outcome
    assert (outcome.kind, outcome.retry) == (attack.kind, attack.kind in RETRIED)
    assert outcome.message
    assert len(outcome.logs) <= LOGS_MAX
    assert run(ECHO, b"still here").output == b"still here"


def test_control_a_loop_that_ends_is_no_attack(run):
    count = """(loop $again
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
      (i64.const 0)"""

    assert isinstance(run(guest(count)), Finished)


def test_control_more_memory_is_given_to_whoever_may_have_it(run):
    grow = guest(
        """(if (i32.eq (memory.grow (i32.const 299)) (i32.const -1)) (then unreachable))
           (i64.const 0)"""
    )

    assert run(grow).kind is TrapKind.UNREACHABLE
    assert isinstance(run(grow, memory_pages_max=300), Finished)


def test_control_a_large_output_within_the_bound_comes_back(run):
    large = guest("(i64.const 16777216)", memory="300")

    assert len(run(large, memory_pages_max=300).output) == 16 * 1024 * 1024


def test_control_a_recursion_that_ends_is_no_attack(run):
    shallow = guest(
        "(call $down (i32.const 1000)) (i64.const 0)",
        more="""(func $down (param i32)
          (if (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1))))))""",
    )

    assert isinstance(run(shallow), Finished)


def test_the_memory_of_a_guest_is_given_back(run):
    """Each of these touches 16 MB."""
    before = resident_length()
    for _ in range(30):
        assert isinstance(run(TOUCHES_16_MB), Finished)

    assert resident_length() - before < 100_000_000


def test_control_stores_that_are_kept_keep_their_memory(engine, modules):
    module = modules.compile(TOUCHES_16_MB)
    before = resident_length()
    stores = []
    for _ in range(10):
        store = wasmtime.Store(engine.wasmtime)
        store.set_fuel(10**9)
        store.set_epoch_deadline(10**6)
        module.ready.instantiate(store).exports(store)["handle"](store, 0, 0)
        stores.append(store)

    assert resident_length() - before > 100_000_000


TOUCHES_16_MB = guest(
    "(memory.fill (i32.const 0) (i32.const 1) (i32.const 16777216)) (i64.const 0)", memory="256"
)


def resident_length():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_fuel_runs_out_at_the_same_place_every_time(run):
    counted = guest(f"(call $log (i32.const 1) (i32.const 0) (i32.const 1)) {FOREVER}")
    outcomes = [run(counted, fuel_max=10_000) for _ in range(2)]

    assert outcomes[0] == outcomes[1]
    assert (outcomes[0].kind, outcomes[0].retry) == (TrapKind.OUT_OF_FUEL, False)
    assert run(ECHO, b"x").fuel_used == run(ECHO, b"x").fuel_used


def test_effects_reads_and_lines_come_with_the_output(run):
    reading = "(drop (call $kv_get (i32.const 1) (i32.const 1) (i32.const 8) (i32.const 8)))"
    outcome = run(
        guest(f"(i32.store8 (i32.const 1) (i32.const 98)) {reading} {WRITES} (i64.const 0)"),
        b"new",
        Keys(b=b"old"),
    )

    assert outcome.effects == (GuestPut(key="a", value=b"new"), GuestDelete(key="b"))
    assert outcome.reads == {"b": 7}
    assert outcome.logs == (LogLine(level=2, message="new"),)


def test_a_guest_sees_its_own_writes(run):
    reading = "(call $kv_get (i32.const 0) (i32.const 1) (i32.const 64) (i32.const 8))"
    keys = Keys(a=b"the old value")
    outcome = run(
        guest(f"{WRITES} (i64.or (i64.const 0x4000000000) (i64.extend_i32_u {reading}))"),
        b"new",
        keys,
    )

    assert outcome.output == b"new"
    assert keys.asked == []


@pytest.mark.parametrize(
    "end", ["unreachable", FOREVER, "(i64.const -1)", "(i64.const -3)", "(i64.const 0xffffffff)"]
)
def test_effects_are_gone_when_the_guest_fails_but_its_lines_are_kept(run, end):
    outcome = run(guest(f"{WRITES} {end}"), b"new", timeout_ms=TIMEOUT_MS)

    assert isinstance(outcome, Trapped)
    assert not hasattr(outcome, "effects")
    assert outcome.logs == (LogLine(level=2, message="new"),)


def test_every_call_has_an_instance_of_its_own(run):
    wasm = guest(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))" + answer_of("(global.get $n)"),
        more="(global $n (mut i32) (i32.const 0))",
    )

    assert [run(wasm).output for _ in range(3)] == [struct.pack("<i", 1)] * 3


def test_keys_that_are_out_of_reach_fail_the_run_and_not_the_next(run):
    reading = "(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))"
    outcome = run(guest(f"{reading} (i64.const 0)"), reader=OutOfReach())

    assert (outcome.kind, outcome.retry) == (TrapKind.HOST_FAILED, True)
    assert outcome.message == "the keys are out of reach"
    assert run(guest("unreachable")).kind is TrapKind.UNREACHABLE


def test_a_reader_with_a_mistake_fails_the_run_only(run):
    class Mistaken:
        def read(self, key):
            return key.nonsense

    reading = "(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))"

    assert run(guest(f"{reading} (i64.const 0)"), reader=Mistaken()).kind is TrapKind.HOST_FAILED


def test_guests_in_many_threads_fail_each_for_its_own_reason(executor, modules):
    """What one thread's host function runs into never comes out in another thread."""
    reading = "(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))"
    cases = [
        (guest(f"{reading} {FOREVER}"), OutOfReach(), TrapKind.HOST_FAILED),
        (guest("unreachable"), Keys(), TrapKind.UNREACHABLE),
        (guest("(i64.div_u (i64.const 1) (i64.const 0))"), Keys(), TrapKind.TRAP),
        (
            guest("(drop (call $kv_delete (i32.const -1) (i32.const 1))) unreachable"),
            Keys(),
            TrapKind.OUT_OF_BOUNDS,
        ),
    ]

    def mistaken_kinds(case):
        wasm, reader, kind = case
        call = GuestCall(module=modules.compile(wasm))
        kinds = [executor.execute(call, reader).kind for _ in range(100)]
        return [found for found in kinds if found is not kind]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(mistaken_kinds, cases * 2)) == [[]] * 8


def test_the_place_of_a_trap_is_told(run):
    wasm = guest("(call $check_age) (i64.const 0)", more="(func $check_age unreachable)")

    assert run(wasm).message == (
        "the guest failed: it gave up (unreachable code was reached) in 'check_age' ← 'handle'"
    )


def test_a_name_of_a_function_cannot_break_a_line(run):
    wasm = guest("(call $e) (i64.const 0)", more='(func $e (@name "a\\nb\\1b[2J") unreachable)')

    assert run(wasm).message.isprintable()


def test_a_module_describes_itself(executor, modules):
    too_long = DESCRIPTION_LENGTH_MAX + 1
    said = '(data (i32.const 0) "{\\"name\\":\\"rules\\"}")'
    speaking = guest(more=f'(func (export "describe") (result i64) (i64.const 16)) {said}')
    silent, failing, lengthy = (
        guest(),
        guest(more='(func (export "describe") (result i64) (i64.const -3))'),
        guest(
            more=f'(func (export "describe") (result i64) (i64.const {too_long}))',
            memory="2",
        ),
    )

    assert executor.describe(modules.check(speaking)).output == b'{"name":"rules"}'
    assert executor.describe(modules.check(silent)).output == b""
    assert (
        executor.describe(modules.check(failing)).message == "describe returned -3: execution error"
    )
    assert executor.describe(modules.check(lengthy)).kind is TrapKind.OUTPUT_TOO_LARGE


def test_a_description_has_no_effects(executor, modules):
    writing = guest(
        more="""(func (export "describe") (result i64)
          (drop (call $kv_delete (i32.const 0) (i32.const 1))) (i64.const 0))"""
    )

    assert executor.describe(modules.check(writing)).effects == ()


def test_an_engine_that_is_not_running_takes_no_guest(engine, executor, modules):
    call = GuestCall(module=modules.compile(ECHO))
    engine.stop()
    engine.stop()
    engine.start()
    outcome = executor.execute(call, Keys())
    idle = WasmEngine()
    unborn = GuestExecutor(idle, idle_modules := Modules(idle))

    assert (outcome.kind, outcome.retry) == (TrapKind.INTERRUPTED, True)
    assert (
        unborn.execute(GuestCall(module=idle_modules.compile(ECHO)), Keys()).kind
        is TrapKind.INTERRUPTED
    )


def test_an_engine_that_stops_throws_out_its_guests(engine, executor, modules):
    """Were they left alone, they would spin for ten minutes."""
    entered = threading.Barrier(5)

    class Gate:
        def read(self, key):
            entered.wait()

    reading = "(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))"
    call = GuestCall(module=modules.compile(guest(f"{reading} {FOREVER}")), timeout_ms=0)
    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(executor.execute, call, Gate()) for _ in range(4)]
        entered.wait()
        engine.stop()
        outcomes = [each.result() for each in running]

    assert [outcome.kind for outcome in outcomes] == [TrapKind.INTERRUPTED] * 4
    assert all(outcome.retry for outcome in outcomes)


ENGINE = WasmEngine()
MODULES = Modules(ENGINE)
RETURNS_ITS_INPUT = guest("(i64.load (local.get $ptr))", memory="2")
CALLS_THE_HOST = guest(
    """(i64.extend_i32_u (call $kv_get
         (i32.load (local.get $ptr)) (i32.load offset=4 (local.get $ptr))
         (i32.load offset=8 (local.get $ptr)) (i32.load offset=12 (local.get $ptr))))"""
)
u32 = st.integers(0, 2**32 - 1) | st.integers(0, 140_000)


@pytest.fixture(scope="module", autouse=True)
def _engine_of_the_properties():
    ENGINE.start()
    yield
    ENGINE.stop()


@settings(max_examples=300)
@given(
    st.integers(-(2**63), 2**63 - 1)
    | st.builds(lambda p, n: p << 32 | n, st.integers(0, 140_000), u32)
)
def test_whatever_a_guest_returns_is_an_output_in_its_memory_or_a_failure(packed):
    call = GuestCall(module=MODULES.compile(RETURNS_ITS_INPUT), input=struct.pack("<q", packed))
    outcome = GuestExecutor(ENGINE, MODULES).execute(call, Keys())

    pointer, length = packed >> 32, packed & 0xFFFF_FFFF
    if packed < 0:
        assert outcome.kind in (
            TrapKind.INVALID_INPUT,
            TrapKind.ALLOCATION_FAILED,
            TrapKind.EXECUTION_ERROR,
            TrapKind.GUEST_ERROR,
        )
    elif pointer + length > 131_072:
        assert outcome.kind is TrapKind.OUT_OF_BOUNDS
    else:
        memory = bytearray(131_072)
        memory[1024:1032] = call.input
        assert outcome.output == memory[pointer : pointer + length]


@settings(max_examples=300)
@given(u32, u32, u32, u32)
def test_whatever_a_guest_asks_of_the_host_stays_in_its_memory(key, key_length, buffer, length):
    call = GuestCall(
        module=MODULES.compile(CALLS_THE_HOST),
        input=struct.pack("<IIII", key, key_length, buffer, length),
    )
    outcome = GuestExecutor(ENGINE, MODULES).execute(call, Keys())

    if max(key + key_length, buffer + length) > 65_536:
        assert outcome.kind is TrapKind.OUT_OF_BOUNDS
    else:  # no such key: −1 as a length is far out of range
        assert outcome.kind is TrapKind.OUT_OF_BOUNDS
        assert "an output" in outcome.message
