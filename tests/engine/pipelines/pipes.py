"""What tests of pipelines are given: graphs, and a worker that speaks to the engine directly."""

import msgspec

from flo.model.pipelines.names import Verdict
from flo.model.pipelines.pipelines import GetPipeline, ListArtifacts, SubmitPipeline
from flo.model.pipelines.work import (
    AwaitNode,
    BatchFailure,
    CompleteNode,
    FailNode,
    FinishInput,
    InputClaim,
    NextInput,
    ReportBatch,
)
from given import ANNA


def node(node_id, type_="worker", *depends_on, **fields):
    return {"node_id": node_id, "type": type_, "depends_on": list(depends_on), **fields}


def pull(*sources, first_batch=True, **fields):
    """The `io` of a node that reads the batches of others."""
    return {
        "start_when": "first_batch" if first_batch else "ready",
        "input_inline": {
            "input_adapter": "pull.from_artifacts",
            "input_args": {"from_nodes": list(sources)},
        },
        **fields,
    }


def graph(*nodes, **fields):
    return {"nodes": list(nodes), **fields}


LINE = graph(node("u", "indexer"), node("v", "enricher", "u", io=pull("u")))
"""Batches of u go to v as they come."""


def submit(*nodes, **fields):
    return SubmitPipeline(graph=graph(*nodes), **fields)


class PipelineWorkerStub:
    """A worker: it asks for a node, and reports what a test tells it to."""

    def __init__(self, engine, worker_id=ANNA, *roles, lease_ms=60_000):
        self.engine, self.worker_id, self.lease_ms = engine, worker_id, lease_ms
        self.roles = list(roles) or ["indexer", "enricher", "worker", "coordinator_fn"]
        self.start = None

    def take(self, **settings):
        """The next node, if there is one."""
        command = AwaitNode(
            worker_id=self.worker_id, roles=self.roles, lease_ms=self.lease_ms, **settings
        )
        starts = self.engine.execute(command).reply.starts
        self.start = starts[0] if starts else None
        return self.start

    @property
    def at(self):
        return {"id": self.start.id, "node": self.start.node, "epoch": self.start.epoch}

    def report(self, uid, source=None, number=0, *, done=True, meta=None, failure=None, **fields):
        claim = InputClaim(from_node=source, number=number) if source else None
        command = ReportBatch(
            **self.at,
            batch_uid=uid,
            meta=msgspec.json.encode(meta or {}),
            input=claim,
            input_done=done,
            failure=BatchFailure(reason_code=failure) if failure else None,
            **fields,
        )
        return self.engine.execute(command).reply

    def next(self, *sources, **settings):
        return self.engine.execute(NextInput(**self.at, from_nodes=list(sources), **settings)).reply

    def finish_input(self, source, number):
        claim = InputClaim(from_node=source, number=number)
        return self.engine.execute(FinishInput(**self.at, inputs=[claim])).reply

    def complete(self, **meta):
        command = CompleteNode(**self.at, meta=msgspec.json.encode(meta))
        return self.engine.execute(command).reply

    def fail(self, reason="oops", permanent=False):
        command = FailNode(**self.at, reason_code=reason, permanent=permanent)
        return self.engine.execute(command).reply


def pipeline(engine, pipeline_id="pipe-1"):
    return engine.query(GetPipeline(id=pipeline_id))


def statuses(engine, pipeline_id="pipe-1"):
    return {one.node_id: str(one.status) for one in pipeline(engine, pipeline_id).nodes}


def node_now(engine, name, pipeline_id="pipe-1"):
    return next(one for one in pipeline(engine, pipeline_id).nodes if one.node_id == name)


def uids(engine, name, pipeline_id="pipe-1"):
    """The uids of the batches that a node has recorded."""
    page = engine.query(ListArtifacts(id=pipeline_id, node=name, limit=1_000))
    return [one.batch_uid for one in page.items if one.status == "partial"]


def is_ok(reply):
    return reply.verdict is Verdict.OK
