import asyncio
import os
import sys
import threading

import pytest

from flo.model.errors import Invalid, Unavailable
from flo.wasm.execution import TIMEOUT_MS_MAX, GuestCall
from flo.wasm.host import Stored
from flo.wasm.outcome import Finished, TrapKind
from flo.wasm.pool import Pool
from wasm.guests import ECHO, FOREVER, Keys, guest
from wasm.hostile import ATTACKS

READING = "(drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))"


class Gate:
    """Keys that are given only when the gate opens: a guest that reads one waits."""

    def __init__(self):
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)

    async def has_let_in(self, count):
        for _ in range(count):
            await asyncio.to_thread(self.entered.acquire)

    def read(self, key):
        self.entered.release()
        self.open.wait()
        return Stored(value=b"", version=1)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


async def test_a_guest_is_checked_and_run(pool):
    module = await pool.check(ECHO)
    outcome = await pool.execute(GuestCall(module=module, input=b"hello"), Keys(), "echo")

    assert outcome.output == b"hello"
    assert (await pool.compile(ECHO)) is module
    assert (await pool.describe(module, 256, "echo")).output == b""


async def test_a_module_that_is_refused_is_refused_to_whoever_asked(pool):
    with pytest.raises(Invalid, match="expected a module"):
        await pool.check(b"no module")


async def test_every_attack_is_contained_and_every_other_guest_is_served(pool, modules):
    echo = await pool.check(ECHO)
    attacks, others = {}, []
    for name, attack in ATTACKS.items():
        call = GuestCall(module=modules.compile(attack.wasm), input=b"input", **attack.bounds())
        attacks[name] = pool.execute(call, Keys(), name)
        others.append(pool.execute(GuestCall(module=echo, input=name.encode()), Keys(), "echo"))

    outcomes = await asyncio.gather(*attacks.values())
    served = await asyncio.gather(*others)

    assert [outcome.kind for outcome in outcomes] == [attack.kind for attack in ATTACKS.values()]
    assert [outcome.output for outcome in served] == [name.encode() for name in ATTACKS]


async def test_others_are_served_while_guests_spin(pool, modules):
    call = GuestCall(module=modules.compile(guest(FOREVER)), timeout_ms=TIMEOUT_MS_MAX)
    spinning = [pool.execute(call, Keys(), "spin") for _ in range(3)]
    echo = await pool.check(ECHO)
    for number in range(50):
        call = GuestCall(module=echo, input=b"%d" % number)
        assert (await pool.execute(call, Keys(), "echo")).output == call.input

    assert not any(each.done() for each in spinning)


async def test_the_loop_goes_round_while_every_slot_is_taken_by_a_guest_that_spins(pool, modules):
    call = GuestCall(module=modules.compile(guest(FOREVER)), timeout_ms=200)
    spinning = [pool.execute(call, Keys(), "spin") for _ in range(4)]
    turns = 0
    while not all(guest.done() for guest in spinning):
        await asyncio.sleep(0)
        turns += 1

    assert [guest.result().kind for guest in spinning] == [TrapKind.TIMED_OUT] * 4
    assert turns > 10


async def test_control_a_guest_on_the_loop_itself_would_stop_it(executor, modules):
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    call = GuestCall(module=modules.compile(guest(FOREVER)), timeout_ms=200)
    assert executor.execute(call, Keys()).kind is TrapKind.TIMED_OUT
    counting.cancel()

    assert turns == 0


async def test_so_many_guests_run_and_so_many_wait(engine, modules, gate):
    pool = Pool(engine, modules, running_max=2, waiting_max=3)
    pool.start()
    call = GuestCall(module=modules.compile(guest(f"{READING} (i64.const 0)")))
    taken = [pool.execute(call, gate, "lane") for _ in range(5)]
    await gate.has_let_in(2)

    with pytest.raises(Unavailable) as refusal:
        pool.execute(call, gate, "lane")
    assert refusal.value.code == "wasm_busy"
    assert (pool.running_count, pool.waiting_count) == (2, 3)
    assert not gate.entered.acquire(blocking=False)

    gate.open.set()
    assert all(isinstance(outcome, Finished) for outcome in await asyncio.gather(*taken))
    await pool.stop()


async def test_a_pool_that_stops_interrupts_its_guests(engine, modules, gate):
    own = engine._ticker  # a server of other tests may have guests of its own
    others = [each for each in threading.enumerate() if each is not own]
    pool = Pool(engine, modules, running_max=4, waiting_max=4)
    pool.start()
    call = GuestCall(
        module=modules.compile(guest(f"{READING} {FOREVER}")), timeout_ms=TIMEOUT_MS_MAX
    )
    running = [pool.execute(call, gate, "spin") for _ in range(4)]
    waiting = [pool.execute(call, gate, "spin") for _ in range(4)]
    await gate.has_let_in(4)
    gate.open.set()
    await pool.stop()
    await pool.stop()

    outcomes = await asyncio.gather(*running)
    refused = await asyncio.gather(*waiting, return_exceptions=True)
    assert [(outcome.kind, outcome.retry) for outcome in outcomes] == [
        (TrapKind.INTERRUPTED, True)
    ] * 4
    assert [error.code for error in refused] == ["wasm_stopped"] * 4
    left = [each for each in threading.enumerate() if each not in others]
    assert not [each for each in left if each.name.startswith("flo-wasm")]
    with pytest.raises(Unavailable, match="no WASM guest is taken any more"):
        pool.execute(call, gate, "spin")


async def test_a_pool_may_be_stopped_before_it_was_started(engine, modules):
    await Pool(engine, modules).stop()


async def test_modules_are_compiled_while_every_slot_is_taken(pool, modules, gate):
    call = GuestCall(module=modules.compile(guest(f"{READING} (i64.const 0)")))
    taken = [pool.execute(call, gate, "lane") for _ in range(5)]
    module = await pool.check(ECHO)
    gate.open.set()
    await asyncio.gather(*taken)

    assert module.exports


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is where")
async def test_guests_leave_a_core_to_the_others(pool):
    class Looking:
        cores: frozenset[int] | set[int] = frozenset()

        def read(self, key):
            self.cores = os.sched_getaffinity(0)

    module = await pool.check(guest(f"{READING} (i64.const 0)"))
    looking = Looking()

    await pool.execute(GuestCall(module=module, input=b""), looking, "read")

    assert len(looking.cores) == max(1, len(os.sched_getaffinity(0)) - 1)
