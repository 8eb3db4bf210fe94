"""A run whose server does not answer for a while, or has given the node to another."""

import asyncio

from flo import Batch, BatchResult, RoleHandler
from flo.client.handles.leased_node import LeasedNode
from flo.model.errors import Unavailable
from flo.model.pipelines.names import Reported, Verdict
from flo.model.pipelines.work import (
    BatchReported,
    CompleteNode,
    FailNode,
    FinishInput,
    HeartbeatNode,
    NodeStart,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)
from flo.testing.handlers import FakeUpstream
from flo.worker.pipelines.clock import WallClock
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.input.adapters import PULL, RECHUNK, PullDefaults
from flo.worker.pipelines.run import NodeRun, RunSettings
from simulator.faults.loop import run_virtual

ROUTE = {
    "input_adapter": RECHUNK,
    "input_args": {"from_node": "u", "size": 1, "meta_list_key": "v"},
}
SOURCES = {"u": [{"v": [1, 2]}, {"v": []}, {"v": [3]}]}


class Sink(RoleHandler):
    role = "sink"

    def __init__(self):
        self.seen = []
        self.reason = None

    async def process_batch(self, batch, ctx):
        self.seen += batch.payload["items"]
        return BatchResult(success=True)


class Waits(Sink):
    async def iter_batches(self, loaded):
        yield Batch(batch_uid="b")

    async def process_batch(self, batch, ctx):
        await ctx.cancel_flag.wait()
        self.reason = ctx.cancel_reason
        await ctx.raise_if_cancelled()


class Trouble:
    """In front of what answers a run: messages of some kinds find nobody, so many times."""

    def __init__(self, upstream, **unanswered):
        self._upstream = upstream
        self._unanswered = unanswered
        self.answers = {}
        self.heard = []

    async def __call__(self, message):
        kind = type(message).__name__
        if self._unanswered.get(kind, 0):
            self._unanswered[kind] -= 1
            raise Unavailable("nobody there")
        self.heard.append(message)
        answer = self.answers.get(type(message))
        return answer if answer is not None else await self._upstream(message)

    def kinds(self, *wanted):
        return [type(one) for one in self.heard if type(one) in wanted]


def performed(handler, trouble, route=None, lease_s=60.0):
    """Run a node to its end, on virtual time."""

    async def perform():
        start = NodeStart(
            id="p",
            node="n",
            role=handler.role,
            epoch=1,
            lease_id="l",
            lease_expires_at_ms=0,
            input_inline=route,
        )
        settings = RunSettings(
            handlers={handler.role: handler},
            input_adapters={PULL: None, RECHUNK: None},
            pull=PullDefaults(),
            clock=WallClock(),
            log=EventLog(),
            heartbeat_interval_s=1.0,
            lease_s=lease_s,
            cancel_grace_s=10.0,
            keeps_on_shutdown=False,
        )
        run = NodeRun(LeasedNode(trouble, start, "w", 60_000), settings)
        await asyncio.create_task(run.perform())

    run_virtual(perform())


def test_every_message_is_sent_until_it_is_answered():
    upstream = FakeUpstream(SOURCES, {}, None, "")
    trouble = Trouble(
        upstream,
        NextInput=2,
        ReportBatch=2,
        FinishInput=2,
        CompleteNode=2,
        HeartbeatNode=2,
        WatchNode=2,
    )
    sink = Sink()

    performed(sink, trouble, ROUTE)

    assert upstream.run.status == "finished"
    assert sorted(result.metrics == {} for result in upstream.run.results) == [True] * 3
    assert sink.seen == [1, 2, 3]
    assert sorted(upstream.run.done_inputs) == [("u", 0), ("u", 1), ("u", 2)]


def test_a_failure_is_told_until_it_is_heard():
    class Fails(Sink):
        async def process_batch(self, batch, ctx):
            raise OSError

    upstream = FakeUpstream(SOURCES, {}, None, "")
    trouble = Trouble(upstream, ReportBatch=2, FailNode=2)

    performed(Fails(), trouble, ROUTE)

    assert (upstream.run.status, upstream.run.reason_code) == ("failed", "unexpected_error")
    assert trouble.kinds(ReportBatch, FailNode) == [ReportBatch, FailNode]


def test_a_node_that_is_anothers_is_left_alone():
    trouble = Trouble(FakeUpstream(SOURCES, {}, None, ""))
    trouble.answers[ReportBatch] = BatchReported(verdict=Verdict.FENCED, reason="attempt 2")
    sink = Sink()

    performed(sink, trouble, ROUTE)

    assert not trouble.kinds(CompleteNode, FailNode, ReleaseNode)


def test_a_lease_that_is_fenced_stops_the_handler_and_nothing_is_reported():
    trouble = Trouble(FakeUpstream({}, {}, None, ""))
    trouble.answers[HeartbeatNode] = Reported(verdict=Verdict.FENCED, reason="attempt 2")
    waits = Waits()

    performed(waits, trouble)

    assert waits.reason == "attempt 2"
    assert not trouble.kinds(CompleteNode, FailNode, ReleaseNode)


def test_a_lease_that_nobody_renews_is_over_for_the_worker_too():
    trouble = Trouble(FakeUpstream({}, {}, None, ""), HeartbeatNode=1_000, WatchNode=1_000)
    waits = Waits()

    performed(waits, trouble, lease_s=5.0)

    assert waits.reason == "lease_expired"
    assert not trouble.kinds(CompleteNode, FailNode, ReleaseNode)


def test_a_cancel_is_heard_from_whatever_is_answered():
    for kind in (HeartbeatNode, WatchNode):
        trouble = Trouble(FakeUpstream({}, {}, None, ""))
        trouble.answers[kind] = Reported(verdict=Verdict.CANCELLED, reason="enough")
        waits = Waits()

        performed(waits, trouble)

        assert waits.reason == "enough"
        assert trouble.kinds(ReleaseNode) == [ReleaseNode]


def test_a_producer_waits_when_it_is_told_to():
    class Source(RoleHandler):
        role = "source"

        async def iter_batches(self, loaded):
            for number in range(3):
                yield Batch(batch_uid=str(number))

    trouble = Trouble(FakeUpstream({}, {}, None, ""), WatchNode=1)
    trouble.answers[ReportBatch] = BatchReported(wait=True)

    performed(Source(), trouble)

    waits = [one.waits for one in trouble.heard if isinstance(one, WatchNode)]
    assert waits.count(True) >= 1
    assert trouble.kinds(CompleteNode) == [CompleteNode]


def test_what_was_cut_and_what_was_empty_is_finished_in_one_message():
    trouble = Trouble(FakeUpstream(SOURCES, {}, None, ""))

    performed(Sink(), trouble, ROUTE)

    (finished,) = [one for one in trouble.heard if isinstance(one, FinishInput)]
    assert {(one.from_node, one.number) for one in finished.inputs} == {("u", 0), ("u", 1)}
