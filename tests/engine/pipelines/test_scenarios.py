"""Commands about pipelines at random, sensible or not: no mistake of ours, and one state."""

from random import Random

import msgspec
import pytest

from flo.engine.pipelines.feature import FEATURE
from flo.engine.pipelines.nodes.intake import INTAKE
from flo.engine.ticks import Tick
from flo.model.errors import FloError, Unexpected
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    ConfigurePipelines,
    DeletePipelineGraph,
    GetPipeline,
    ListArtifacts,
    ListPipelines,
    PatchPipeline,
    PipelineSettings,
    PublishPipeline,
    ReadPipelineEvents,
    RetryPipeline,
    SubmitPipeline,
)
from flo.model.pipelines.work import (
    AwaitNode,
    BatchFailure,
    CompleteNode,
    FailNode,
    FinishInput,
    HeartbeatNode,
    InputClaim,
    NextInput,
    PutArtifact,
    RecordPipelineEvent,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)
from flo.shard.snapshot import dump, fingerprint, load
from given import EngineHarness, Later, replayed

STEPS = 1_500
SEEDS = range(4)
NAMES = ("a", "b", "c", "d")


class PipelineScenario:
    """Draws the next command; half of them follow on what was answered before."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self.starts = []
        self.inputs = []

    def step(self, engine):
        rng = self.rng
        draw = rng.choice((self.submit, self.work, self.work, self.work, self.work, self.other))
        return draw(engine)

    def graph(self):
        rng = self.rng
        nodes = []
        for name in NAMES[: rng.randint(1, 4)]:
            others = [one["node_id"] for one in nodes]
            some = rng.sample(others, rng.randint(0, len(others)))
            io = {"start_when": rng.choice(("ready", "first_batch"))}
            if some:
                io["input_inline"] = {"input_args": {"from_nodes": some}}
            document = {
                "node_id": name,
                "type": rng.choice(("x", "y", "coordinator_fn")),
                "depends_on": some,
                "fan_in": rng.choice(("all", "any", "count:1", "count:0", "some")),
                "retry_policy": {"max": rng.randint(0, 2), "backoff_sec": rng.choice((0, 5))},
                "io": {**io, "fn": rng.choice(("noop", "vars.incr", "merge.generic", "own"))},
            }
            if others and rng.random() < 0.3:
                earlier = rng.choice(nodes)
                way = rng.choice(("on_success", "on_failure"))
                earlier.setdefault("routing", {}).setdefault(way, []).append(name)
            nodes.append(document)
        edges = [{"from": "a", "to": "b", "mode": "async", "trigger": "on_batch"}]
        return {"nodes": nodes, "edges_ex": edges if rng.random() < 0.2 else []}

    def submit(self, engine):
        rng = self.rng
        if rng.random() < 0.2:
            return PublishPipeline(name="stored", graph=self.graph())
        return SubmitPipeline(
            graph=self.graph() if rng.random() < 0.9 else None,
            name="stored",
            lenient=rng.random() < 0.8,
            id=rng.choice((None, None, "mine", "yours")),
            idempotency_key=rng.choice((None, "k1", "k2", None)),
            functions_outside=rng.random() < 0.2,
            timeout_ms=rng.choice((None, 60_000)),
            soft_ms=rng.choice((None, 5_000)),
            hard_ms=rng.choice((None, 50_000)),
            cancel_grace_ms=rng.choice((0, 3_000)),
            backlog_max=rng.choice((None, 1)),
        )

    def some_id(self, engine):
        number = engine.state.space("default").pipelines.number
        return self.rng.choice([f"pipe-{max(1, number - self.rng.randint(0, 6))}", "mine", "none"])

    def at(self, engine):
        rng = self.rng
        if self.starts and rng.random() < 0.9:
            start = rng.choice(self.starts[-6:])
            return {"id": start.id, "node": start.node, "epoch": start.epoch}
        return {"id": self.some_id(engine), "node": rng.choice(NAMES), "epoch": rng.randint(0, 3)}

    def claim(self):
        if self.inputs and self.rng.random() < 0.7:
            one = self.rng.choice(self.inputs[-5:])
            return InputClaim(from_node=one.from_node, number=one.number)
        if self.rng.random() < 0.5:
            return None
        return InputClaim(from_node=self.rng.choice(NAMES), number=self.rng.randint(0, 3))

    def work(self, engine):
        rng, at = self.rng, self.at(engine)
        uid = f"u{rng.randint(0, 12)}"
        meta = msgspec.json.encode({"count": rng.randint(0, 3)})
        roles = rng.choice((["x"], ["x", "y"], ["coordinator_fn"]))
        return rng.choice(
            (
                AwaitNode(worker_id=rng.choice("pq"), roles=roles, max_nodes=rng.randint(1, 3)),
                AwaitNode(worker_id=rng.choice("pq"), roles=roles, lease_ms=1_000),
                HeartbeatNode(**at, worker_id="p"),
                NextInput(**at, from_nodes=rng.sample(NAMES, 2)),
                NextInput(**at, from_nodes=[rng.choice(NAMES)], max_batches=1),
                ReportBatch(**at, batch_uid=uid, meta=meta),
                ReportBatch(**at, batch_uid=uid, meta=meta),
                ReportBatch(**at, batch_uid=uid, input=self.claim(), input_done=rng.random() < 0.7),
                ReportBatch(**at, batch_uid=uid, failure=BatchFailure(reason_code="r")),
                FinishInput(**at, inputs=[self.claim() or InputClaim(from_node="a", number=0)]),
                CompleteNode(**at, meta=meta),
                FailNode(**at, reason_code=rng.choice(("r", "bad_input")), permanent=False),
                ReleaseNode(**at, keep=rng.random() < 0.5),
                PutArtifact(id=at["id"], node=at["node"], batch_uid=uid, meta=meta),
            )
        )

    def other(self, engine):
        rng, at, pipeline_id = self.rng, self.at(engine), self.some_id(engine)
        settings = PipelineSettings(
            max_global_running=rng.choice((None, 1, 5)),
            max_type_concurrency=rng.choice(({}, {"x": 1})),
            event_stream=rng.choice((None, "events")),
        )
        function = rng.choice(
            ("vars.set", "vars.unset", "vars.incr", "metrics.aggregate", "merge.generic")
        )
        about = {"node_id": "a", "from_nodes": ["a"], "target": {"node_id": "a"}}
        arguments = rng.choice(({}, {"kv": {"a.b": 1}}, {"key": "a"}, {"keys": ["a.b"]}, about))
        sets = rng.choice(({}, {"coordinator.vars.a": 1}, {"nodes.a.coordinator.cancelled": True}))
        return rng.choice(
            (
                Later(rng.choice((10, 1_000, 70_000))),
                Later(1_500),
                Tick(),
                Tick(),
                CancelPipeline(id=pipeline_id),
                RetryPipeline(id=pipeline_id),
                ConfigurePipelines(settings=settings),
                CallPipelineFunction(id=pipeline_id, function=function, arguments=arguments),
                PatchPipeline(id=pipeline_id, set=sets, inc={"hits": 1}),
                DeletePipelineGraph(name="stored"),
                RecordPipelineEvent(
                    id=at["id"],
                    node=at["node"],
                    attempt_epoch=at["epoch"],
                    kind=rng.choice(tuple(INTAKE)),
                    payload=rng.choice(
                        ({}, {"batch_uid": "u1", "metrics": {"count": 1}}, {"permanent": True})
                    ),
                ),
            )
        )

    def heard(self, reply):
        self.starts += getattr(reply, "starts", [])
        if getattr(reply, "verdict", None) is not None:
            self.inputs += getattr(reply, "items", [])


def told(seed):
    """An engine after such a scenario, and how many of its steps were refused."""
    scenario, engine, refused = PipelineScenario(seed), EngineHarness(), 0
    for _ in range(STEPS):
        try:
            scenario.heard(engine.execute(scenario.step(engine)).reply)
        except Unexpected:
            raise
        except FloError:
            refused += 1
    return engine, refused


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_asked_the_state_is_what_the_log_says(seed):
    engine, refused = told(seed)

    assert refused < STEPS / 2
    assert fingerprint(replayed(engine.log)) == fingerprint(engine.state)
    loaded = load(list(dump(engine.state)))
    assert fingerprint(loaded) == fingerprint(engine.state)
    assert loaded.due._at_ms == engine.state.due._at_ms
    assert loaded.journals == engine.state.journals


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happened_can_be_looked_at(seed):
    engine, _ = told(seed)
    ids = [one.id for one in engine.query(ListPipelines(limit=1_000)).items]

    for one in ids:
        engine.query(GetPipeline(id=one))
        engine.query(ListArtifacts(id=one, limit=1_000))
        engine.query(ReadPipelineEvents(id=one, limit=1_000))
        engine.query(WatchNode(id=one, node="a", epoch=1))

    assert len(ids) == engine.state.spaces["default"].pipelines.number


def test_the_scenarios_have_every_event():
    happened = {type(event) for seed in SEEDS for event in told(seed)[0].events}

    assert happened >= set(FEATURE.folds)
