"""The reference model of the queues: the runs that a worker may claim, in their order."""

import asyncio
from collections import OrderedDict
from typing import TypeAlias

from flo.model.ids import ActionName, Labels, Namespace, RunId
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.limits import LimitReference
from simulator.reference.run_timeline import RunTimeline

LabelSet: TypeAlias = frozenset[tuple[str, str | int | float | bool | None]]
"""The labels that a run asks for, or that a worker has; None is a nested value."""

ReadyRuns: TypeAlias = OrderedDict[RunId, float]
"""Runs in the order in which they became ready, and since when on the loop's time."""

_NO_LABELS: LabelSet = frozenset()


class QueueReference:
    def __init__(self, checks: Checks, limits: LimitReference) -> None:
        self.lanes: dict[tuple[Namespace, ActionName], dict[LabelSet, dict[int, ReadyRuns]]] = {}
        """The ready runs of an action, by the labels they ask for and by priority."""
        self._ready: dict[tuple[Namespace, RunId], RunTimeline] = {}
        self._hold = checks.hold
        self._limits = limits
        self._loop = asyncio.get_running_loop()

    def ready_since_s(
        self, namespace: Namespace, action: ActionName, labels: Labels | None
    ) -> float | None:
        """Since when some run could have begun that a worker with these labels may have."""
        mine = labels_had(labels)
        ready_s = min(
            (
                next(iter(runs.values()))
                for lane, priorities in self.lanes.get((namespace, action), {}).items()
                if lane <= mine
                for runs in priorities.values()
            ),
            default=None,
        )
        if ready_s is None:
            return None
        return max(ready_s, self._limits.free_since_s((namespace, action)))

    def _is_later(self, run: RunTimeline, other: RunId) -> bool:
        ready = self._ready[run.namespace, other]
        return (ready.ready_at_ms, ready.made.number) > (run.ready_at_ms, run.made.number)

    def add(self, run: RunTimeline) -> None:
        """It may be claimed from now on."""
        made = run.made
        self._ready[run.key] = run
        lanes = self.lanes.setdefault((run.namespace, made.action), {})
        priorities = lanes.setdefault(label_set(made.labels), {})
        priorities.setdefault(made.priority, OrderedDict())[made.run_id] = self._loop.time()

    def put_back(self, run: RunTimeline) -> None:
        """It may be claimed again, before whoever became ready after it."""
        self.add(run)
        made = run.made
        lane = self.lanes[run.namespace, made.action][label_set(made.labels)]
        runs = list(lane[made.priority].items())
        added = runs.pop()
        later = [place for place, (run_id, _) in enumerate(runs) if self._is_later(run, run_id)]
        runs.insert(later[0] if later else len(runs), added)
        lane[made.priority] = OrderedDict(runs)

    def claim(self, run: RunTimeline) -> None:
        """It is claimed, and must be the first of its lane."""
        made = run.made
        lanes = self.lanes.get((run.namespace, made.action), {})
        priorities = lanes.get(label_set(made.labels), {})
        highest = max(priorities, default=-1)
        first = next(iter(priorities[highest])) if priorities else None
        self._hold(
            Invariant.QUEUE_ORDER,
            first == made.run_id,
            f"{first} of priority {highest} comes before {made.run_id} of {made.priority}",
        )
        self.remove(run)

    def remove(self, run: RunTimeline) -> None:
        made = run.made
        lanes = self.lanes[run.namespace, made.action]
        priorities = lanes[label_set(made.labels)]
        del priorities[made.priority][made.run_id]
        del self._ready[run.key]
        if not priorities[made.priority]:
            del priorities[made.priority]
        if not priorities:
            del lanes[label_set(made.labels)]

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self.lanes if key[0] == namespace]:
            del self.lanes[key]
        for run in [run for run in self._ready if run[0] == namespace]:
            del self._ready[run]


def label_set(labels: Labels | None) -> LabelSet:
    """What a run asks for: of a nested value, only that there is one of its name."""
    if not labels:
        return _NO_LABELS
    return frozenset(
        (name, None if isinstance(value, dict | list) else value) for name, value in labels.items()
    )


def labels_had(labels: Labels | None) -> LabelSet:
    """What a worker has: its labels, and for each of them that there is one of its name."""
    return label_set(labels) | frozenset((name, None) for name in labels or ())
