"""What was said about keys, held against what is durable at that moment."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from flo.model.errors import FloError
from flo.model.ids import Key, Namespace
from flo.model.kv import (
    Change,
    Check,
    Committed,
    Delete,
    Increment,
    KeyPage,
    Put,
    PutKey,
    Value,
    VersionView,
)
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.streams import WAKE_S_MAX
from simulator.reference.kv import KeyPhase
from simulator.reference.log import ReferenceModel


class Asked(NamedTuple):
    """When something was asked: after which append, and what the server took for the time."""

    before: int
    at_ms: int
    set_back_ms: int


class KvLedger:
    def __init__(self, checks: Checks, reference: ReferenceModel, observer: Observer) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._kv = reference.kv
        self._time = observer.time
        self._observer = observer

    def asking(self) -> Asked:
        """To be asked before anything is sent, and handed in with the answer."""
        return Asked(self._reference.position, self._time.now_ms(), self._time.set_back_ms)

    def put(self, asked: Asked, command: PutKey, version: int) -> None:
        address = (command.namespace, command.key)
        found = self._kv.keys[address].changed_with(version)
        self._hold(Invariant.WRITES_KEPT, found is not None, command, version)
        assert found is not None
        before, phase = found
        kept = phase.since > asked.before and phase.value == command.value
        self._hold(Invariant.WRITES_KEPT, kept, command, phase)
        ttl_ms = phase.expires_at_ms - phase.at_ms if phase.expires_at_ms is not None else None
        self._hold(Invariant.WRITES_KEPT, ttl_ms == command.ttl_ms, command, phase)
        actual = before.version if before.is_there(phase.at_ms) else 0
        met = self._is_met(command, actual)
        self._hold(Invariant.CAS_HONOURED, met, command, before, phase)

    def put_refused(self, asked: Asked, command: PutKey, error: FloError) -> None:
        met = [
            self._is_met(command, actual)
            for phase in self._phases(asked, command.namespace, command.key)
            for actual in self._versions(asked, phase)
        ]
        self._hold(Invariant.CAS_HONOURED, not all(met), command, repr(error))

    def deleted(self, asked: Asked, namespace: Namespace, key: Key, *, existed: bool) -> None:
        phases = self._phases(asked, namespace, key)
        if existed:
            gone = any(phase.change and phase.value is None for phase in phases[1:])
            self._hold(Invariant.WRITES_KEPT, gone, key, "is said to be deleted;", *phases)
        else:
            absent = any(0 in self._versions(asked, phase) for phase in phases)
            self._hold(Invariant.KEYS_FRESH, absent, key, "is said not to exist;", *phases)

    def version_refused(
        self, asked: Asked, namespace: Namespace, key: Key, version: int, error: FloError
    ) -> None:
        actual = {
            actual
            for phase in self._phases(asked, namespace, key)
            for actual in self._versions(asked, phase)
        }
        self._hold(Invariant.CAS_HONOURED, actual != {version}, key, version, repr(error))

    def counted(self, asked: Asked, namespace: Namespace, key: Key, delta: int, total: int) -> None:
        phases = self._phases(asked, namespace, key)
        found = any(
            phase.value == b"%d" % total
            and int((before.value if before.is_there(phase.at_ms) else None) or 0) + delta == total
            for before, phase in pairwise(phases)
        )
        self._hold(Invariant.WRITES_KEPT, found, key, delta, total, *phases)

    def seen(self, asked: Asked, namespace: Namespace, key: Key, value: Value) -> None:
        """A key was shown, or is said not to be there."""
        phases = self._phases(asked, namespace, key)
        if value.value is None:
            absent = any(0 in self._versions(asked, phase) for phase in phases)
            self._hold(Invariant.KEYS_FRESH, absent, key, "is said not to exist;", *phases)
            return
        shown = (value.version, value.value, value.expires_at_ms)
        known = any((one.version, one.value, one.expires_at_ms) == shown for one in phases)
        self._hold(Invariant.KEYS_FRESH, known, key, value, *phases)
        self._check_unexpired(asked, key, value.expires_at_ms)

    def waited_in_vain(
        self, asked: Asked, namespace: Namespace, key: Key, newer_than: int | None
    ) -> None:
        """A wait without any trouble on the way brought nothing."""
        now = self._kv.keys[namespace, key].now
        long_ago = self._observer.now_s() - now.since_s > WAKE_S_MAX
        if newer_than is None:
            there = now.value is not None and now.expires_at_ms is None
            self._hold(Invariant.READS_WAKE, not (there and long_ago), key, now)
        else:
            other = now.version != newer_than and now.since > asked.before
            self._hold(Invariant.READS_WAKE, not (other and long_ago), key, newer_than, now)

    def scanned(
        self, asked: Asked, namespace: Namespace, prefix: str, after: Key | None, page: KeyPage
    ) -> None:
        shown = [view.key for view in page.items]
        in_order = shown == sorted(set(shown)) and all(key > (after or "") for key in shown)
        self._hold(Invariant.SCANS_WHOLE, in_order, shown, after)
        for view in page.items:
            phases = self._phases(asked, namespace, view.key)
            known = any(
                phase.version == view.version and view.value in (None, phase.value)
                for phase in phases
            )
            self._hold(Invariant.KEYS_FRESH, known and bool(view.version), view, *phases)
            self._check_unexpired(asked, view.key, view.expires_at_ms)
        for (theirs, key), timeline in self._kv.keys.items():
            in_reach = theirs == namespace and key.startswith(prefix) and key > (after or "")
            if not in_reach or (page.cursor is not None and key > page.cursor):
                continue
            phases = timeline.phases_since(asked.before)
            there = all(0 not in self._versions(asked, phase) for phase in phases)
            self._hold(Invariant.SCANS_WHOLE, key in shown or not there, key, "is missing", shown)

    def history(
        self,
        asked: Asked,
        namespace: Namespace,
        key: Key,
        limit: int,
        items: Sequence[VersionView],
    ) -> None:
        phases = self._phases(asked, namespace, key)
        known = any(
            list(items)
            == [
                VersionView(version=phase.version, at_ms=phase.at_ms, value=phase.value),
                *phase.history,
            ][:limit]
            for phase in phases
            if phase.value is not None
        )
        self._hold(Invariant.HISTORY_KEPT, known, key, items, *phases)

    def document(self, asked: Asked, namespace: Namespace, key: Key, version: int) -> KeyPhase:
        """What a key became with a change of its document."""
        found = self._kv.keys[namespace, key].changed_with(version)
        self._hold(Invariant.WRITES_KEPT, found is not None, key, version)
        assert found is not None
        return found[1]

    def values(self, asked: Asked, namespace: Namespace, key: Key) -> list[bytes | None]:
        """What a key may have been seen as since it was asked for."""
        phases = self._phases(asked, namespace, key)
        found: list[bytes | None] = [phase.value for phase in phases]
        if any(0 in self._versions(asked, phase) for phase in phases):
            found.append(None)
        return found

    def read_in_transaction(
        self,
        asked: Asked,
        namespace: Namespace,
        key: Key,
        changes: Sequence[Change],
        value: Value,
    ) -> None:
        """A transaction sees what is there, and on top of it what it is about to change."""
        mine = [change for change in changes if change.key == key]
        for phase in self._phases(asked, namespace, key):
            for version in self._versions(asked, phase):
                base = phase.value if version else None
                seen, _ = _outcome(base, None, mine, 0)
                if (version, seen) == (value.version, value.value):
                    return
        self._hold(Invariant.TRANSACTIONS_WHOLE, False, key, value, changes)

    def committed(
        self,
        asked: Asked,
        namespace: Namespace,
        checks: Sequence[Check],
        changes: Sequence[Change],
        answer: Committed,
    ) -> None:
        """Everything in a transaction has been done at once, on what it had read."""
        hold = self._hold
        keys = self._kv.changed.get((namespace, answer.version), []) if answer.changes else []
        hold(Invariant.TRANSACTIONS_WHOLE, len(keys) == answer.changes, answer, keys)
        position = 0
        for key in dict.fromkeys(change.key for change in changes):
            mine = [change for change in changes if change.key == key]
            found = self._kv.keys[namespace, key].changed_with(answer.version) if keys else None
            if found is None or key not in keys:
                ends_absent = _outcome(None, None, mine, 0)[0] is None
                hold(Invariant.TRANSACTIONS_WHOLE, ends_absent, key, "is left out;", changes)
                continue
            before, phase = found
            position = phase.since
            there = before.is_there(phase.at_ms)
            expected = _outcome(
                before.value if there else None,
                before.expires_at_ms if there else None,
                mine,
                phase.at_ms,
            )
            done = expected == (phase.value, phase.expires_at_ms) and phase.since > asked.before
            hold(Invariant.TRANSACTIONS_WHOLE, done, mine, before, phase)
        for check in checks if position else ():
            hold(
                Invariant.CAS_HONOURED,
                self._held_at(namespace, check, position, answer.version),
                check,
                answer,
                *self._kv.keys[namespace, check.key].phases[-5:],
            )

    def transaction_refused(
        self, asked: Asked, namespace: Namespace, checks: Sequence[Check], error: FloError
    ) -> None:
        """Something that was read is said to have changed: it has."""
        for check in checks:
            for phase in self._phases(asked, namespace, check.key):
                if self._versions(asked, phase) != {check.version}:
                    return
        self._hold(Invariant.CAS_HONOURED, False, checks, repr(error))

    def _held_at(self, namespace: Namespace, check: Check, position: int, version: int) -> bool:
        """Whether a key had this version when a transaction was done."""
        timeline = self._kv.keys[namespace, check.key]
        found = timeline.changed_with(version)
        if found is not None:
            before, phase = found
            return check.version == (before.version if before.is_there(phase.at_ms) else 0)
        phases = [phase for phase in timeline.phases_since(position - 1) if phase.since <= position]
        versions = {phase.version for phase in phases}
        if any(phase.expires_at_ms is not None for phase in phases):
            versions.add(0)
        return check.version in versions

    def _phases(self, asked: Asked, namespace: Namespace, key: Key) -> list[KeyPhase]:
        return self._kv.keys[namespace, key].phases_since(asked.before)

    def _versions(self, asked: Asked, phase: KeyPhase) -> set[int]:
        """What versions may be seen of a key that is so; 0 when it may have expired."""
        if phase.value is None:
            return {0}
        versions = {phase.version}
        if phase.expires_at_ms is not None and phase.expires_at_ms <= self._time.latest_ms():
            versions.add(0)
        return versions

    def _check_unexpired(self, asked: Asked, key: Key, expires_at_ms: int | None) -> None:
        if self._time.set_back_ms == asked.set_back_ms:
            there = expires_at_ms is None or expires_at_ms > asked.at_ms
            self._hold(Invariant.EXPIRED_UNSEEN, there, key, expires_at_ms, asked)

    def _is_met(self, command: PutKey, actual: int) -> bool:
        if command.if_version is not None and command.if_version != actual:
            return False
        return not (command.if_absent and actual) and not (command.if_present and not actual)


def _outcome(
    value: bytes | None, expires_at_ms: int | None, changes: Sequence[Change], at_ms: int
) -> tuple[bytes | None, int | None]:
    """What these changes make of a value, one after the other, and when it expires then."""
    for change in changes:
        match change:
            case Put(value=put, ttl_ms=ttl_ms):
                value, expires_at_ms = put, at_ms + ttl_ms if ttl_ms is not None else None
            case Delete():
                value = expires_at_ms = None
            case Increment(delta=delta):
                value = b"%d" % (int(value or 0) + delta)
    return value, expires_at_ms
