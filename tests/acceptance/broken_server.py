"""A server with a bug: python broken_server.py BUG server start ….

leaky       a run whose worker is given up keeps its slot
careless    everybody has a slot
deaf        what a worker says it holds is ignored
hoarding    large inputs are kept in memory
"""

import sys

from flo.cli.app.main import main
from flo.engine.machine import FOLDS, REACTIONS
from flo.engine.runs import limits, reports
from flo.engine.runs.events import RunRequeued
from flo.engine.workers.events import WorkerBack
from flo.engine.workflows import rules as workflows
from flo.engine.workflows.events import WorkflowAdmitted
from flo.shard import loop


def leaky() -> None:
    def apply_requeued(state, event):
        space = state.spaces[event.namespace]
        run = space.runs[event.run_id]
        reports.apply_requeued(state, event)
        if run.limit_key is not None:
            permits = space.action_permits.setdefault(
                (run.action, run.limit_key), limits.ActionPermits()
            )
            permits.holders[f"{run.run_id}, attempt {run.attempt}"] = state.moment()

    FOLDS[RunRequeued] = apply_requeued


def careless() -> None:
    def admitted(state, namespace, key, context):
        permits = state.spaces[namespace].workflow_permits.get(key)
        for run_id in list(permits.waiting) if permits is not None else ():
            yield WorkflowAdmitted(namespace=namespace, run_id=run_id, at_ms=context.now_ms)

    limits._most = lambda space, name: None
    workflows._admitted = admitted


def deaf() -> None:
    REACTIONS[WorkerBack] = lambda state, event, context: ()


def hoarding() -> None:
    loop.Shard.__init__.__kwdefaults__["spill_bytes"] = 2**40


if __name__ == "__main__":
    {"leaky": leaky, "careless": careless, "deaf": deaf, "hoarding": hoarding}[sys.argv.pop(1)]()
    main()
