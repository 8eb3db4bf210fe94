"""The reference model of keys: every value that each of them ever had."""

from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyKept, KeyPut
from flo.model.ids import Key, Namespace
from flo.model.kv import VersionView
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer, TimerProbe
from simulator.reference.handlers import reads

HISTORY_MAX = 64
JSON_PREFIX = "json"
"""The keys that begin so have documents: what is in them is checked when it is answered for."""


class KeyPhase(NamedTuple):
    """What a key was for a while; version 0 and no value if it was not there."""

    since: int
    """The append that made it so."""
    since_s: float
    version: int = 0
    value: bytes | None = None
    at_ms: int = 0
    expires_at_ms: int | None = None
    history: tuple[VersionView, ...] = ()
    """The older values, the newest first."""
    change: int = 0
    """The number of the change that made it so."""

    def is_there(self, at_ms: int) -> bool:
        """Whether the key is seen at a time."""
        return self.value is not None and (self.expires_at_ms is None or self.expires_at_ms > at_ms)


class KeyTimeline:
    def __init__(self) -> None:
        self.phases = [KeyPhase(0, 0.0)]
        self.timer: TimerProbe | None = None

    @property
    def now(self) -> KeyPhase:
        return self.phases[-1]

    def phases_since(self, position: int) -> list[KeyPhase]:
        """What it has been between an append and now."""
        index = bisect_right(self.phases, position, key=lambda phase: phase.since)
        return self.phases[max(0, index - 1) :]

    def changed_with(self, version: int) -> tuple[KeyPhase, KeyPhase] | None:
        """What it was before the change with this number, and what it became with it."""
        for index in range(len(self.phases) - 1, 0, -1):
            before, phase = self.phases[index - 1 : index + 1]
            if before.change != phase.change == version:  # else it was kept for another time
                return before, phase
        return None


class KvReference:
    def __init__(self, observer: Observer) -> None:
        self.keys: defaultdict[tuple[Namespace, Key], KeyTimeline] = defaultdict(KeyTimeline)
        self.versions: defaultdict[Namespace, int] = defaultdict(int)
        self.changed: defaultdict[tuple[Namespace, int], list[Key]] = defaultdict(list)
        """The keys that were changed with a version."""
        self._observer = observer
        self._hold = observer.hold

    def forget(self, namespace: Namespace) -> None:
        """The namespace is gone, and so are its keys; the next one counts from the beginning."""
        for key in [key for key in self.keys if key[0] == namespace]:
            self._turn(self.keys[key], self._gone(0, 0))
        self.versions.pop(namespace, None)
        for version in [one for one in self.changed if one[0] == namespace]:
            del self.changed[version]

    @reads
    def _put(self, event: KeyPut) -> None:
        timeline = self.keys[event.namespace, event.key]
        before = timeline.now
        is_there = before.is_there(event.at_ms)
        self._check_version(event)
        asked = event.key.startswith(JSON_PREFIX) or self._is_asked(event, before, is_there)
        self._hold(Invariant.WRITES_ASKED, asked, event, before)
        history: tuple[VersionView, ...] = ()
        if is_there:
            assert before.value is not None
            older = VersionView(version=before.version, at_ms=before.at_ms, value=before.value)
            history = (older, *before.history)[:HISTORY_MAX]
        phase = KeyPhase(
            self._observer.position,
            self._observer.now_s(),
            event.version,
            event.value,
            event.at_ms,
            event.expires_at_ms,
            history,
            event.version,
        )
        self._turn(timeline, phase)

    def _is_asked(self, event: KeyPut, before: KeyPhase, is_there: bool) -> bool:
        """Whether somebody asked for this value, or to count on from the one before."""
        requests, address = self._observer.requests, (event.namespace, event.key)
        ttl_ms = event.expires_at_ms - event.at_ms if event.expires_at_ms is not None else None
        if (event.value, ttl_ms) in requests.puts[address]:
            return True
        if not event.value.lstrip(b"-").isdigit():
            return False
        old = before.value if is_there else None
        if old is not None and not old.lstrip(b"-").isdigit():
            return False
        delta = int(event.value) - int(old or b"0")
        return delta in requests.deltas[address]

    @reads
    def _deleted(self, event: KeyDeleted) -> None:
        address = (event.namespace, event.key)
        timeline = self.keys[address]
        asked = address in self._observer.requests.deletes and timeline.now.value is not None
        self._hold(Invariant.WRITES_ASKED, asked, event, timeline.now)
        self._check_version(event)
        self._turn(timeline, self._gone(event.version, event.at_ms))

    @reads
    def _expired(self, event: KeyExpired) -> None:
        timeline = self.keys[event.namespace, event.key]
        self._hold(Invariant.WRITES_ASKED, timeline.timer is not None, event, timeline.now)
        assert timeline.timer is not None
        self._observer.goes_off(timeline.timer, event)
        self._check_version(event)
        self._turn(timeline, self._gone(event.version, event.at_ms))

    @reads
    def _kept(self, event: KeyKept) -> None:
        address = (event.namespace, event.key)
        timeline = self.keys[address]
        at_ms, keeps = self._observer.at_ms, self._observer.requests.keeps[address]
        ttl_ms = event.expires_at_ms - at_ms if event.expires_at_ms is not None else None
        asked = ttl_ms in keeps and timeline.now.value is not None
        self._hold(Invariant.WRITES_ASKED, asked, event, timeline.now)
        phase = timeline.now._replace(
            since=self._observer.position,
            since_s=self._observer.now_s(),
            expires_at_ms=event.expires_at_ms,
        )
        self._turn(timeline, phase)

    def _check_version(self, event: KeyPut | KeyDeleted | KeyExpired) -> None:
        """Only what changes at one moment shares a version, and no key changes twice with it."""
        newest = self.versions[event.namespace]
        together = self.changed[event.namespace, event.version]
        if event.version == newest and event.key not in together:
            last = self.keys[event.namespace, together[-1]].now.since
            grows = last == self._observer.position
        else:
            grows = event.version > newest
        self._hold(Invariant.VERSIONS_GROW, grows, event, newest, together)
        self.versions[event.namespace] = event.version
        together.append(event.key)

    def _gone(self, change: int, at_ms: int) -> KeyPhase:
        observer = self._observer
        return KeyPhase(observer.position, observer.now_s(), at_ms=at_ms, change=change)

    def _turn(self, timeline: KeyTimeline, phase: KeyPhase) -> None:
        timeline.phases.append(phase)
        expires_at_ms = phase.expires_at_ms
        timeline.timer = self._observer.timer(expires_at_ms) if expires_at_ms is not None else None
