"""The reference model of limits: who has a permit, who waits for one, how many runs began.

It counts by going through all runs of a key every time, and shares no code with the engine.
"""

import asyncio
import json
from collections import defaultdict, deque
from typing import TypeAlias

from flo.engine.actions.records import Action
from flo.engine.runs.records import Run
from flo.model.actions import ActionLimits
from flo.model.ids import ActionName, Namespace, RunId
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.run_timeline import RunTimeline

ActionKey: TypeAlias = tuple[Namespace, ActionName]
PermitKey: TypeAlias = tuple[Namespace, ActionName, str]

WHO_KEY = "{input.who}"
"""The only template there is in a simulation; without one, all runs are counted together."""


class PermitTimeline:
    """The runs of one key."""

    def __init__(self) -> None:
        self.waiting: list[RunTimeline] = []
        self.in_queue: dict[RunId, RunTimeline] = {}
        self.under_way: dict[RunId, RunTimeline] = {}

    @property
    def holders(self) -> set[RunId]:
        return {*self.in_queue, *self.under_way}

    def let_in(self, most: int | None) -> list[RunTimeline]:
        """Those for whom there is a permit, the highest priority first."""
        admitted: list[RunTimeline] = []
        while self.waiting and (most is None or len(self.holders) < most):
            highest = max(run.made.priority for run in self.waiting)
            run = next(run for run in self.waiting if run.made.priority == highest)
            self.waiting.remove(run)
            self.in_queue[run.run_id] = run
            admitted.append(run)
        return admitted

    def send_back(self, most: int | None) -> list[RunTimeline]:
        """Those in the queue for whom there is no permit any more; they go before who waits."""
        room = len(self.in_queue) if most is None else max(0, most - len(self.under_way))
        in_order = sorted(
            self.in_queue.values(),
            key=lambda run: (-run.made.priority, run.ready_at_ms, run.made.number),
        )
        back = in_order[room:]
        for run in back:
            del self.in_queue[run.run_id]
        self.waiting = back + self.waiting
        return back


class LimitReference:
    def __init__(self, checks: Checks) -> None:
        self.permits: dict[PermitKey, PermitTimeline] = {}
        self._hold = checks.hold
        self._loop = asyncio.get_running_loop()
        self._limits: dict[ActionKey, ActionLimits | None] = {}
        self._begun: defaultdict[tuple[ActionKey, int], deque[int]] = defaultdict(deque)
        """When runs began that a window of this length counts."""
        self._last_begun_s: dict[ActionKey, float] = {}
        self._changed_s: dict[ActionKey, float] = {}

    def server_started(self) -> None:
        """A new server knows nothing of what has begun before."""
        self._begun.clear()

    def changed(
        self, namespace: Namespace, action: Action
    ) -> tuple[list[RunTimeline], list[RunTimeline]]:
        """The action was registered: who leaves the queue to wait, and who comes into it."""
        key = (namespace, action.name)
        self._limits[key] = action.limits
        self._changed_s[key] = self._loop.time()
        lengths = [length_ms for length_ms, _ in self._windows(key)]
        for counted in [one for one in self._begun if one[0] == key and one[1] not in lengths]:
            del self._begun[counted]
        timelines = [timeline for name, timeline in sorted(self.permits.items()) if name[:2] == key]
        back = [run for timeline in timelines for run in timeline.send_back(self._most(key))]
        return back, [run for timeline in timelines for run in timeline.let_in(self._most(key))]

    def made(self, namespace: Namespace, run: Run) -> None:
        """A run is limited by what the action says when it is made, or made again."""
        key = self.key_of(namespace, run)
        self._hold(Invariant.PERMITS_BOUNDED, run.limit_key == key, run, "should have the key", key)

    def key_of(self, namespace: Namespace, run: Run) -> str | None:
        """By what the limits of its action, as they are now, count a run."""
        limits = self._limits[namespace, run.action]
        if limits is None or limits.concurrency_max is None:
            return None
        assert isinstance(run.input, bytes)
        return _who(run.input) if limits.concurrency_key == WHO_KEY else ""

    def moved(self, run: RunTimeline, limit_key: str | None) -> None:
        """The run is counted by another key; if it is ready, it has no place for the moment."""
        key = self.key_of(run.namespace, run.made)
        self._hold(Invariant.PERMITS_BOUNDED, limit_key == key, run, "should have the key", key)
        if run.holder is not None or run.timer is None:
            self._take_out(run)
        run.limit_key = limit_key
        if limit_key is not None and run.holder is not None:
            name = (run.namespace, run.made.action, limit_key)
            self.permits.setdefault(name, PermitTimeline()).under_way[run.run_id] = run

    def moved_all(
        self, namespace: Namespace, action: ActionName, ready: list[RunTimeline]
    ) -> list[RunTimeline]:
        """These were ready, and find their place now; who comes into the queue."""
        key = (namespace, action)
        admitted = [run for run in ready if run.limit_key is None]
        for run in ready:
            if run.limit_key is not None:
                name = (*key, run.limit_key)
                self.permits.setdefault(name, PermitTimeline()).waiting.append(run)
        for name, timeline in sorted(self.permits.items()):
            if name[:2] == key:
                admitted += timeline.let_in(self._most(key))
                if not timeline.waiting and not timeline.holders:
                    del self.permits[name]
        return admitted

    def _take_out(self, run: RunTimeline) -> None:
        if run.limit_key is None:
            return
        timeline = self._timeline(run)
        if run in timeline.waiting:
            timeline.waiting.remove(run)
        timeline.in_queue.pop(run.run_id, None)
        timeline.under_way.pop(run.run_id, None)

    def ready(self, run: RunTimeline) -> list[RunTimeline]:
        """The run may begin; who comes into the queue."""
        if run.limit_key is None:
            return [run]
        timeline = self.permits.setdefault(
            (run.namespace, run.made.action, run.limit_key), PermitTimeline()
        )
        timeline.waiting.append(run)
        return timeline.let_in(self._most((run.namespace, run.made.action)))

    def ready_again(self, run: RunTimeline) -> list[RunTimeline]:
        """The run was handed out in vain: it waits before those that became ready after it."""
        if run.limit_key is None:
            return [run]
        name = (run.namespace, run.made.action, run.limit_key)
        waiting = self.permits.setdefault(name, PermitTimeline()).waiting
        later = [
            place
            for place, other in enumerate(waiting)
            if other.made.priority == run.made.priority
            and (other.ready_at_ms, other.made.number) > (run.ready_at_ms, run.made.number)
        ]
        waiting.insert(later[0] if later else len(waiting), run)
        return self.permits[name].let_in(self._most(name[:2]))

    def begins(self, run: RunTimeline, at_ms: int) -> None:
        key = (run.namespace, run.made.action)
        self._last_begun_s[key] = self._loop.time()
        for length_ms, limit in self._windows(key):
            begun = self._begun[key, length_ms]
            begun.append(at_ms)
            while begun[0] <= at_ms - length_ms:
                begun.popleft()
            self._hold(Invariant.RATES_BOUNDED, len(begun) <= limit, run, begun)
        if run.limit_key is None:
            return
        timeline, most = self._timeline(run), self._most(key)
        self._hold(Invariant.PERMITS_BOUNDED, run.run_id in timeline.in_queue, run, "has no permit")
        timeline.under_way[run.run_id] = timeline.in_queue.pop(run.run_id)
        bounded = most is None or len(timeline.under_way) <= most
        self._hold(Invariant.PERMITS_BOUNDED, bounded, most, *map(str, timeline.under_way.values()))

    def leaves(self, run: RunTimeline) -> list[RunTimeline]:
        """The run is not ready, and not under way any more; who comes into the queue for it."""
        if run.limit_key is None:
            return []
        timeline = self._timeline(run)
        self._take_out(run)
        admitted = timeline.let_in(self._most((run.namespace, run.made.action)))
        if not timeline.waiting and not timeline.holders:
            del self.permits[run.namespace, run.made.action, run.limit_key]
        return admitted

    def is_waiting(self, run: RunTimeline) -> bool:
        return run.limit_key is not None and run in self._timeline(run).waiting

    def free_since_s(self, key: ActionKey) -> float:
        """Since when, at the latest, nothing but work was missing for a run to begin."""
        longest_ms = max((length_ms for length_ms, _ in self._windows(key)), default=0)
        last_s = self._last_begun_s.get(key)
        times = [self._changed_s.get(key, 0.0)]
        if longest_ms and last_s is not None:
            times.append(last_s + longest_ms / 1_000)
        return max(times)

    def forget(self, namespace: Namespace) -> None:
        for name in [name for name in self.permits if name[0] == namespace]:
            del self.permits[name]

    def _timeline(self, run: RunTimeline) -> PermitTimeline:
        assert run.limit_key is not None
        return self.permits[run.namespace, run.made.action, run.limit_key]

    def _most(self, key: ActionKey) -> int | None:
        limits = self._limits[key]
        return limits.concurrency_max if limits is not None else None

    def _windows(self, key: ActionKey) -> list[tuple[int, int]]:
        limits = self._limits.get(key)
        if limits is None:
            return []
        windows = (
            (1_000, limits.max_per_second),
            (60_000, limits.max_per_minute),
            (3_600_000, limits.max_per_hour),
        )
        return [(length_ms, limit) for length_ms, limit in windows if limit is not None]


def _who(payload: bytes) -> str:
    try:
        value = json.loads(payload)
    except ValueError:
        return "null"
    return value.get("who", "null") if isinstance(value, dict) else "null"
