"""A pipeline whose log is cut after every single commit, and that is driven on from there: it has
the same end. Retry, fan-in, first batches, parts of batches, functions and a cancel are in it."""

from copy import deepcopy

import msgspec
import pytest

from engine.pipelines.pipes import (
    PipelineWorkerStub,
    graph,
    node,
    pipeline,
    pull,
    statuses,
    uids,
)
from flo.engine.pipelines.nodes import work
from flo.engine.ticks import Tick
from flo.model.errors import Conflict
from flo.model.pipelines.hashing import chunk_uid
from flo.model.pipelines.names import PIPELINE_ENDED, Verdict
from flo.model.pipelines.pipelines import CancelPipeline, SubmitPipeline
from flo.model.pipelines.work import ReleaseNode
from given import EngineHarness, Later, replayed

BATCHES = 4
RETRY = {"max": 3, "backoff_sec": 0.5}
GRAPH = graph(
    node("u", "make", retry_policy=RETRY),
    node("v", "pass", "u", io=pull("u"), retry_policy=RETRY),
    node("w", "cut", "u", io=pull("u"), retry_policy=RETRY),
    node("j", "pass", "v", "w", fan_in="all", io=pull("v", "w", first_batch=False)),
    node("sum", "coordinator_fn", "j", io={"fn": "metrics.aggregate", "fn_args": {"node_id": "j"}}),
    node("count", "coordinator_fn", "j", io={"fn": "vars.incr", "fn_args": {"key": "seen"}}),
)


class RecordingEngine(EngineHarness):
    """Remembers what was durable after every commit."""

    def __init__(self):
        super().__init__()
        self.commits = []

    def execute(self, *steps):
        decision = super().execute(*steps)
        if decision.events:
            kept = dict(self.records.stored)
            self.commits.append((list(self.log), kept, deepcopy(self.archive), self.now_ms))
        return decision


def cut_after(commit):
    """A server that knows what was durable by then, and nothing else."""
    log, records, archive, now_ms = commit
    engine = EngineHarness(replayed(log), now_ms)
    engine.log, engine.archive = list(log), deepcopy(archive)
    engine.records.stored = dict(records)
    return engine


class Stopped(Exception):
    pass


class DrivingWorker(PipelineWorkerStub):
    """Does what handlers do, whatever it is given; its first attempt at u fails."""

    def run(self):
        try:
            if self.start.role == "make":
                self.make()
            else:
                self.read()
            self.complete()
        except Stopped:
            pass

    def make(self):
        for number in range(BATCHES):
            if number == 2 and self.start.epoch == 1:
                self.fail()
                raise Stopped
            self.made(f"b{number}", {"items": list(range(number + 1)), "count": 1})

    def read(self):
        while not (page := self.next(*self.start.sources, max_batches=2)).end:
            if page.verdict is not Verdict.OK:
                self.stop(page.verdict)
            if not page.items:  # others have to work first
                self.engine.execute(ReleaseNode(**self.at), Later(300), Tick())
                raise Stopped
            for one in page.items:
                self.process(one)

    def process(self, one):
        items = msgspec.json.decode(one.meta)["items"]
        if self.start.role == "pass":
            self.made(one.batch_uid, {"items": items, "count": 1}, one.from_node, one.number)
            return
        parts = [items[at : at + 2] for at in range(0, len(items), 2)]
        for index, part in enumerate(parts):
            uid = chunk_uid(one.from_node, one.batch_uid, index)
            if uid not in one.done_uids:
                meta = {"items": part, "count": 1}
                is_last = index == len(parts) - 1
                self.made(uid, meta, one.from_node, one.number, done=is_last)

    def made(self, uid, meta, *claim, **settings):
        reply = self.report(uid, *claim, meta=meta, **settings)
        if reply.verdict not in (Verdict.OK, Verdict.DUPLICATE):
            self.stop(reply.verdict)

    def stop(self, verdict):
        if verdict is Verdict.CANCELLED:
            self.engine.execute(ReleaseNode(**self.at))
        raise Stopped


def drive_to_the_end(engine, name, cancels=False):
    """Workers that know nothing of what was before, and time that passes when nobody can work."""
    worker = DrivingWorker(engine, name, "make", "pass", "cut", lease_ms=1_000)
    for _ in range(200):
        if pipeline(engine).status in PIPELINE_ENDED:
            return
        if cancels and len(uids(engine, "v")) >= 2 and pipeline(engine).status == "running":
            engine.execute(CancelPipeline(id="pipe-1", reason="enough"))
        elif worker.take() is not None:
            worker.run()
        else:
            engine.execute(Later(300), Tick())
    raise AssertionError(f"it never ends: {statuses(engine)}")


def account(engine):
    """What must be the same whatever was killed."""
    view = pipeline(engine)
    made = {one.node_id: sorted(uids(engine, one.node_id)) for one in view.nodes}
    stats = next(one.stats for one in view.nodes if one.node_id == "j")
    return view.status, statuses(engine), made, stats, view.vars


def left_alone(cancels=False):
    engine = RecordingEngine()
    engine.execute(SubmitPipeline(graph=GRAPH, cancel_grace_ms=2_000))
    drive_to_the_end(engine, "first", cancels)
    return engine


def test_a_pipeline_that_is_left_alone():
    status, nodes, made, stats, variables = account(left_alone())

    assert status == "finished"
    assert set(nodes.values()) == {"finished"}
    assert made["u"] == made["v"] == ["b0", "b1", "b2", "b3"]
    assert len(made["w"]) == 1 + 1 + 2 + 2
    assert stats == {"count": float(len(made["v"]) + len(made["w"]))}
    assert variables == {"seen": 1}


def test_it_has_the_same_end_whichever_commit_is_the_last_before_a_kill():
    engine = left_alone()
    expected = account(engine)
    assert len(engine.commits) > 40

    for number, commit in enumerate(engine.commits):
        again = cut_after(commit)
        drive_to_the_end(again, f"after-{number}")
        assert account(again) == expected, number


def test_a_cancelled_one_ends_whichever_commit_is_the_last_before_a_kill():
    engine = left_alone(cancels=True)
    assert pipeline(engine).status == "cancelled"

    for number, commit in enumerate(engine.commits):
        again = cut_after(commit)
        drive_to_the_end(again, f"after-{number}", cancels=True)
        assert pipeline(again).status == "cancelled", number
        assert "running" not in statuses(again).values()
        for name in "uvw":
            found = uids(again, name)
            assert len(found) == len(set(found))


def test_a_claim_that_counts_as_done_is_found(monkeypatch):
    """The control: what was handed out is not handed out again."""
    wanted = work.wanted_inputs

    def only_new(pipeline, command):
        inputs = pipeline.nodes[command.node].inputs
        for source, number, place in wanted(pipeline, command):
            if source not in inputs or number >= inputs[source].next:
                yield source, number, place

    engine = left_alone()
    monkeypatch.setattr(work, "wanted_inputs", only_new)

    def drive_all():
        for number, commit in enumerate(engine.commits):
            drive_to_the_end(cut_after(commit), f"after-{number}")

    with pytest.raises(Conflict, match="without a result"):
        drive_all()
