"""Counts again who has the permits of actions, and who waits for one, and compares."""

from flo.engine.runs.records import Run
from flo.engine.state import Space
from flo.model.ids import Namespace, RunId, run_id_of
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.log import ReferenceModel


def audit_permits(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    expected = {
        (action, key): (timeline.holders, _by_priority([run.made for run in timeline.waiting]))
        for (theirs, action, key), timeline in reference.limits.permits.items()
        if theirs == namespace
    }
    for (action, _), permits in space.action_permits.items():
        gone = [number for number in permits.waiting if run_id_of(action, number) not in space.runs]
        checks.hold(Invariant.PERMITS_RIGHT, not gone, action, "has no runs", gone)
    kept = {
        (action, key): (
            set(permits.holders),
            _by_priority([space.runs[run_id_of(action, number)] for number in permits.waiting]),
        )
        for (action, key), permits in space.action_permits.items()
    }
    checks.hold(Invariant.PERMITS_RIGHT, kept == expected, kept, expected)
    for run in space.runs.values():
        made = reference.runs.by_id[namespace, run.run_id].made
        wanted = reference.limits.key_of(namespace, made)
        checks.hold(
            Invariant.PERMITS_RIGHT, run.limit_key == wanted, run, "should have the key", wanted
        )
    for (action, key), permits in space.action_permits.items():
        limits = space.settings(action).limits
        most = limits.concurrency_max if limits is not None else None
        full = most is not None and len(permits.holders) >= most
        checks.hold(Invariant.PERMITS_RIGHT, full or not permits.waiting, action, key, "has room")


def _by_priority(runs: list[Run]) -> list[RunId]:
    return [run.run_id for run in sorted(runs, key=lambda run: -run.priority)]
