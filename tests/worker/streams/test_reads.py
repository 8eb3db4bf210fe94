"""A whole stream worker in virtual time, under a real shard."""

import asyncio
import logging
import re
from collections import defaultdict
from typing import Any

import pytest

from flo import StreamContext
from flo.model.groups import (
    Ack,
    JoinGroup,
    LeaveGroup,
    ListPending,
    Nack,
    PendingPage,
    ReadGroup,
    Settled,
    TouchRecords,
)
from flo.model.workers import DeregisterWorker, Effect, RegisterWorker, WorkerType
from worker.shard_server import WorkerSetup, play, soon

KEYED = {"mode": "key_shared"}


class RecordingHandler:
    """A handler that writes down what it sees; it takes `takes_s` for each record.

    A record in `fails` raises that many times.
    """

    def __init__(self, takes_s: float = 0.0, fails: dict[str, int] | None = None) -> None:
        self._takes_s = takes_s
        self._fails = defaultdict(int, fails or {})
        self.begun: list[str] = []
        self.done: list[str] = []
        self.cancelled: list[str] = []
        self.deliveries: list[int] = []

    async def __call__(self, ctx: StreamContext) -> None:
        name = ctx.payload.decode()
        self.begun.append(name)
        self.deliveries.append(ctx.deliveries)
        try:
            await asyncio.sleep(self._takes_s)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        if self._fails[name]:
            self._fails[name] -= 1
            raise ValueError(f"{name} cannot be handled")
        self.done.append(name)

    def done_of(self, key: str) -> list[str]:
        return [name for name in self.done if name[0] == key]


def named(count: int, key: str = "k") -> list[str]:
    return [f"{key}{number}" for number in range(1, count + 1)]


def test_a_worker_joins_and_registers_before_it_reads_and_leaves_at_the_end() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.start()
        await soon()

    assert play(scenario, RecordingHandler()).names == [
        "join_group",
        "register_worker",
        "await_notifications",
        "list_pending",
        "read_group",
        "drain_worker",
        "await_notifications",
        "leave_group",
        "deregister_worker",
    ]


def test_a_worker_says_who_it_is_and_what_it_reads() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.start()
        await soon()

    server = play(
        scenario,
        RecordingHandler(),
        concurrency=7,
        batch_size=3,
        block_ms=9_000,
        consumer="boris",
        machine_id="host",
        metadata={"version": "1.2"},
        effect="keyed",
    )
    (registration,) = server.heard(RegisterWorker)
    assert re.fullmatch("[0-9a-f]{16}", registration.incarnation)
    assert registration == RegisterWorker(
        worker_id="anna",
        processes=["events/g"],
        max_concurrency=7,
        machine_id="host",
        metadata={"version": "1.2"},
        worker_type=WorkerType.STREAM,
        incarnation=registration.incarnation,
        connection_bound=True,
        consumer="boris",
        handlers=registration.handlers,
    )
    assert registration.handlers is not None
    (handler,) = registration.handlers
    assert (handler.action, handler.effect) == ("events/g", Effect.KEYED)
    assert handler.code_digest is not None
    assert server.heard(JoinGroup) == [JoinGroup(stream="events", group="g", consumer="boris")]
    assert server.heard(ReadGroup) == [
        ReadGroup(
            stream="events",
            group="g",
            consumer="boris",
            limit=3,
            block_ms=9_000,
            worker_id="anna",
            join=False,
        )
    ]


def test_what_ends_well_in_one_turn_is_acked_in_one_call_and_what_fails_is_nacked_in_one() -> None:
    recorded = RecordingHandler(takes_s=1.0, fails={"b2": 1, "b4": 1})

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("a1", "b2", "a3", "b4", "a5")
        setup.start()
        await asyncio.sleep(1.1)
        first_ack, first_nack = setup.server.heard(Ack)[0], setup.server.heard(Nack)[0]
        assert sorted(one.rpartition("-")[2] for one in first_ack.ids) == ["1", "3", "5"]
        assert sorted(one.rpartition("-")[2] for one in first_nack.ids) == ["2", "4"]
        assert (first_ack.worker_id, first_nack.worker_id) == ("anna", "anna")
        assert first_nack.consumer == "anna"
        await asyncio.sleep(2)
        process = (await setup.beside.workers.get("anna")).processes[0]
        assert (process.name, process.run_count, process.fail_count) == ("events/g", 5, 2)

    server = play(scenario, recorded)
    assert len(server.heard(Ack)) == 2
    assert len(server.heard(Nack)) == 1
    assert sorted(recorded.done) == ["a1", "a3", "a5", "b2", "b4"]


def test_what_a_handler_raises_is_logged_and_the_record_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorded = RecordingHandler(fails={"k1": 2})

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1")
        setup.start()
        await soon()

    with caplog.at_level(logging.WARNING, "flo.worker"):
        play(scenario, recorded)
    assert recorded.deliveries == [1, 2, 3]
    assert recorded.done == ["k1"]
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" of ")[2] for line in lines] == [
        f"events/g has failed, delivery {number} of 10: "
        "ValueError: k1 cannot be handled; it is redelivered"
        for number in (1, 2)
    ]


def test_reading_goes_on_while_handlers_run_up_to_a_batch_more() -> None:
    recorded = RecordingHandler(takes_s=30.0)
    most = 0

    async def scenario(setup: WorkerSetup) -> None:
        nonlocal most
        await setup.append(*named(40))
        setup.start()
        await asyncio.sleep(0.5)  # while acks are on their way, the group counts them as pending
        for _ in range(400):
            await asyncio.sleep(1.0)
            most = max(most, (await setup.group.info()).pending)
        assert len(recorded.done) == 40

    play(scenario, recorded, concurrency=4, batch_size=5)
    assert most == 4 + 5
    assert len(set(recorded.begun)) == len(recorded.begun)


@pytest.mark.parametrize("are_touched", [True, False])
def test_a_handler_may_take_longer_than_the_ack_timeout_because_its_record_is_touched(
    are_touched: bool,
) -> None:
    recorded = RecordingHandler(takes_s=20.0)

    async def scenario(setup: WorkerSetup) -> None:
        if not are_touched:  # the control: without touches, others get it
            setup.server.answers[TouchRecords] = Settled(count=1_000)
        await setup.append("k1", "k2")
        setup.start()
        await soon()
        taken = await setup.group.read("boris", block=19.0)
        assert bool(taken.items) is not are_touched
        await asyncio.sleep(30.0)

    play(scenario, recorded, group={"ack_timeout": 2.0}, concurrency=1)
    assert "k1" in recorded.done


def test_a_handler_that_takes_too_long_is_given_up_and_its_record_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorded = RecordingHandler(takes_s=50.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1")
        setup.start()
        await asyncio.sleep(25.0)

    play(scenario, recorded, message_timeout=10.0, drain_timeout=0.0)
    assert recorded.deliveries == [1, 2, 3]
    assert recorded.cancelled == ["k1"] * 3
    assert "the handler ran over its message_timeout of 10 s" in caplog.text


@pytest.mark.parametrize("mode", ["key_shared", "shared"])
def test_the_records_of_a_key_are_done_in_order_although_some_fail_at_first(mode: str) -> None:
    fails = {"k2": 2, "k5": 1, "k6": 3, "j3": 1}
    recorded = RecordingHandler(takes_s=0.5, fails=fails)

    async def scenario(setup: WorkerSetup) -> None:
        for k, j in zip(named(8), named(8, "j"), strict=True):
            await setup.append(k, j)
        setup.start()
        await asyncio.sleep(60.0)
        worker = await setup.beside.workers.get("anna")
        assert worker.tasks_completed == 16
        assert worker.tasks_failed >= sum(fails.values())

    play(scenario, recorded, group={"mode": mode}, concurrency=4, batch_size=3)
    in_order = recorded.done_of("k") == named(8) and recorded.done_of("j") == named(8, "j")
    assert in_order is (mode == "key_shared")  # the control: without keys, they overtake
    assert sorted(recorded.done) == sorted(named(8) + named(8, "j"))


def test_a_failed_record_is_not_overtaken_by_one_that_was_on_its_way() -> None:
    recorded = RecordingHandler(takes_s=1.0, fails={"k1": 1})

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1")
        setup.start()
        await asyncio.sleep(1.0 - 1e-9)  # the handler is about to fail, and a read is parked
        await setup.append("k2")
        await asyncio.sleep(10.0)

    play(scenario, recorded, group=KEYED)
    assert recorded.done == ["k1", "k2"]


def test_a_record_given_up_for_good_does_not_take_the_others_of_its_key_along() -> None:
    recorded = RecordingHandler(fails={"k2": 1_000})

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(6))
        setup.start()
        await asyncio.sleep(10.0)
        dead = (await setup.group.dead()).items
        assert [(one.record.payload, one.deliveries) for one in dead] == [(b"k2", 3)]

    play(scenario, recorded, group={**KEYED, "max_deliveries": 3}, batch_size=4)
    assert recorded.done == ["k1", "k3", "k4", "k5", "k6"]
    assert recorded.begun.count("k2") == 3


@pytest.mark.parametrize("strays_are_known", [True, False])
def test_records_whose_answer_was_lost_come_again_at_once_and_before_later_ones(
    strays_are_known: bool,
) -> None:
    recorded = RecordingHandler()

    async def scenario(setup: WorkerSetup) -> None:
        setup.server.lost.append(ReadGroup)
        if not strays_are_known:  # the control: then later ones overtake them
            setup.server.answers[ListPending] = PendingPage(items=[])
        await setup.append(*named(6))
        setup.start()
        await asyncio.sleep(10.0)

    play(scenario, recorded, group=KEYED, batch_size=3)
    assert recorded.done == (named(6) if strays_are_known else ["k4", "k5", "k6"])


def test_an_ack_whose_answer_was_lost_is_said_again_and_nothing_is_done_twice() -> None:
    recorded = RecordingHandler()

    async def scenario(setup: WorkerSetup) -> None:
        setup.server.lost.append(Ack)
        await setup.append(*named(3))
        setup.start()
        await asyncio.sleep(10.0)
        assert (await setup.group.info()).pending == 0

    server = play(scenario, recorded)
    assert recorded.begun == named(3)
    assert server.heard(Ack)[0] == server.heard(Ack)[1]
    assert len(server.ends) == 2


def test_a_worker_goes_on_after_its_connection_was_lost() -> None:
    recorded = RecordingHandler(takes_s=3.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1", "k2")
        setup.start()
        await asyncio.sleep(1.0)
        setup.server.cut()
        await setup.append("k3")
        await asyncio.sleep(10.0)

    server = play(scenario, recorded)
    assert recorded.begun == sorted(recorded.done) == ["k1", "k2", "k3"]
    assert server.heard(Nack) == []


def test_what_is_not_ours_any_more_is_not_begun() -> None:
    recorded = RecordingHandler(takes_s=5.0)
    begun_at_s: dict[str, float] = {}

    async def handler(ctx: StreamContext) -> None:
        begun_at_s[ctx.payload.decode()] = asyncio.get_running_loop().time()
        await recorded(ctx)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1", "k2")
        setup.start()
        await asyncio.sleep(1.0)
        setup.server.refusals = 1_000_000
        setup.server.cut()
        await asyncio.sleep(9.0)
        assert recorded.done == ["k1"]
        assert begun_at_s.keys() == {"k1"}
        setup.server.refusals = 0
        await asyncio.sleep(20.0)

    play(scenario, handler, group={"ack_timeout": 2.0}, concurrency=1)
    assert recorded.begun == recorded.done == ["k1", "k2"]
    assert begun_at_s["k2"] > 10.0


def test_a_record_that_another_consumer_has_taken_over_is_stopped_and_not_settled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorded = RecordingHandler(takes_s=20.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1", "k2")
        setup.start()
        await asyncio.sleep(1.0)
        claimed = await setup.group.claim("boris", min_idle=0.5, limit=1)
        assert [record.payload for record in claimed.items] == [b"k1"]
        await asyncio.sleep(2.0)
        assert recorded.cancelled == ["k1"]
        await setup.group.touch(claimed.items, "boris", extend=600.0)
        await asyncio.sleep(30.0)
        assert (await setup.group.info()).pending == 1

    play(scenario, recorded, group={"ack_timeout": 3.0})
    assert recorded.done == ["k2"]
    assert "is lost: others may have it" in caplog.text


async def _joined_boris(setup: WorkerSetup) -> None:
    await setup.group.join("boris")


def test_a_worker_that_is_drained_by_the_server_finishes_what_it_has_and_leaves() -> None:
    recorded = RecordingHandler(takes_s=5.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(9))
        setup.start()
        await asyncio.sleep(1.0)
        await setup.beside.workers.drain("anna")
        await setup.append("k10")
        await setup.serving
        group = await setup.group.info()
        assert (group.pending, group.waiting, group.lag, group.consumers) == (0, 0, 6, [])

    server = play(scenario, recorded, concurrency=2, batch_size=2)
    assert sorted(recorded.done) == named(4)
    assert server.names[-2:] == ["leave_group", "deregister_worker"]


def test_a_worker_gives_back_what_it_cannot_finish_in_time() -> None:
    recorded = RecordingHandler(takes_s=100.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(6))
        setup.start()
        await asyncio.sleep(1.0)
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() == pytest.approx(21.0, abs=1.0)
        group = await setup.group.info()
        assert (group.pending, group.waiting, group.consumers) == (0, 4, [])
        again = await setup.group.read("boris", limit=10)
        assert [record.payload.decode() for record in again.items] == named(6)

    server = play(scenario, recorded, concurrency=2, batch_size=2, drain_timeout=20.0)
    assert sorted(recorded.cancelled) == ["k1", "k2"]
    failed, given_back = server.heard(Nack)
    assert (len(failed.ids), failed.worker_id) == (2, "anna")
    assert (len(given_back.ids), given_back.worker_id, given_back.delay_ms) == (2, None, 0)


def test_a_worker_stopped_at_once_leaves_its_records_to_the_others() -> None:
    recorded = RecordingHandler(takes_s=100.0)

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(3))
        setup.start()
        await asyncio.sleep(1.0)
        setup.worker.stop(at_once=True)
        await setup.serving
        assert asyncio.get_running_loop().time() < 2.0
        again = await setup.group.read("boris", limit=10)
        assert [record.payload.decode() for record in again.items] == named(3)

    server = play(scenario, recorded)
    assert sorted(recorded.cancelled) == named(3)
    assert len(server.heard(LeaveGroup)) == len(server.heard(DeregisterWorker)) == 1


def test_a_worker_that_comes_back_by_its_name_has_at_once_what_it_had_before() -> None:
    recorded = RecordingHandler()

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(6))
        await setup.group.join("anna")
        await setup.group.read("anna", limit=3)  # in an earlier life, which ended with a kill
        setup.start()
        await soon()

    play(scenario, recorded, group=KEYED)
    assert recorded.done == named(6)
    assert recorded.deliveries == [2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("what", ["group", "stream"])
def test_a_worker_whose_group_is_deleted_makes_it_again(what: str) -> None:
    recorded = RecordingHandler()

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append("k1")
        setup.start()
        await soon()
        if what == "group":
            await setup.group.delete()
        else:
            await setup.beside.streams.delete("events")
        await asyncio.sleep(3.0)
        await setup.append("k2")
        await soon()

    play(scenario, recorded)
    assert recorded.done == (["k1", "k1", "k2"] if what == "group" else ["k1", "k2"])


def test_a_group_that_wants_no_acks_gets_none() -> None:
    recorded = RecordingHandler(takes_s=10.0, fails={"k2": 1})

    async def scenario(setup: WorkerSetup) -> None:
        await setup.append(*named(4))
        setup.start()
        await asyncio.sleep(60.0)

    server = play(scenario, recorded, group={**KEYED, "no_ack": True, "ack_timeout": 1.0})
    assert recorded.done == ["k1", "k3", "k4"]
    assert server.heard(Ack) == server.heard(Nack) == server.heard(TouchRecords) == []


def test_a_refused_join_is_told() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await _joined_boris(setup)
        setup.start()
        with pytest.raises(Exception, match="no more may stand by"):
            await setup.serving
        setup.serving = _nothing()

    play(scenario, RecordingHandler(), group={"mode": "exclusive", "max_standbys": 0})


def _nothing() -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future
