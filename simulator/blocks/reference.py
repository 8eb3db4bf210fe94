"""The reference model of blocks: every lock, every entry of every ledger, and what became of them.

It keeps all of them for ever, and knows of each run which jobs it has, from the events alone.
"""

from collections.abc import Sequence
from typing import Any

from flo.engine.blocks.events import (
    BlockDeleted,
    BlockRegistered,
    EntryAttempted,
    EntryExecuted,
    EntryOpened,
    EntryRollbackBegan,
    EntrySettled,
    LedgerClosed,
    LedgerEnded,
    LedgerOpened,
    LocksGranted,
    LocksReleased,
    LocksRequested,
    ResourcesAcquired,
)
from flo.engine.blocks.records import BlockRecord
from flo.model.ids import Namespace, RunId
from flo.model.storage.archive import Archived
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads

BLOCK_KINDS = {"ledger"}
"""What is in the archive and belongs to blocks."""
UNDONE = ("rolled_back", "resolved", "needless")
Key = tuple[Namespace, RunId]


class EntryTimeline:
    """A step that was executed, or may have been."""

    def __init__(self, block: str, wave: int, job: RunId) -> None:
        self.block, self.wave = block, wave
        self.jobs = [job]
        self.state = "open"
        self.outcome: str | None = None
        self.attempts = 0

    def __str__(self) -> str:
        return f"{self.block} wave {self.wave} {self.outcome} {self.state}"


class LedgerTimeline:
    def __init__(self, event: LedgerOpened) -> None:
        self.family = event.ledger.family
        self.acquiring = set(event.ledger.acquiring)
        self.wanted: dict[str, str] = {key: str(one) for key, one in event.ledger.wanted.items()}
        self.granted = False
        self.entries: dict[int, EntryTimeline] = {}
        self.is_unsafe = False
        self.closed: str | None = None

    def __str__(self) -> str:
        entries = ", ".join(f"{number}: {one}" for number, one in self.entries.items())
        return f"(granted {self.granted}, {self.closed or 'open'}: {entries})"


class LockTimeline:
    """Who holds a key and who waits, as the events say it."""

    def __init__(self) -> None:
        self.holders: dict[RunId, str] = {}
        self.waiters: dict[RunId, str] = {}


class BlockReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self.blocks: dict[tuple[Namespace, str], BlockRecord] = {}
        self.ledgers: dict[Key, LedgerTimeline] = {}
        self.locks: dict[tuple[Namespace, str], LockTimeline] = {}
        self.tokens: dict[Namespace, int] = {}
        self._closed_now: set[RunId] = set()

    @property
    def live(self) -> dict[Key, LedgerTimeline]:
        return {key: one for key, one in self.ledgers.items() if one.closed is None}

    def forget(self, namespace: Namespace) -> None:
        for known in (self.blocks, self.ledgers, self.locks):
            for key in [key for key in known if key[0] == namespace]:
                del known[key]
        self.tokens.pop(namespace, None)

    def begin(self) -> None:
        self._closed_now.clear()

    def finish(self, archived: Sequence[Archived]) -> None:
        rows = {row.name for row in archived if row.kind in BLOCK_KINDS}
        self._hold(Invariant.ARCHIVED_AT_END, rows == self._closed_now, rows, self._closed_now)

    def _of(self, event: Any) -> LedgerTimeline:
        ledger = self.ledgers.get((event.namespace, event.run_id))
        there = ledger is not None and ledger.closed is None
        self._hold(Invariant.CLOSED_LEDGERS_REST, there, event, ledger)
        assert ledger is not None
        return ledger

    def _line(self, namespace: Namespace, key: str) -> LockTimeline:
        return self.locks.setdefault((namespace, key), LockTimeline())

    @reads
    def _registered(self, event: BlockRegistered) -> None:
        self.blocks[event.namespace, event.block.id] = event.block

    @reads
    def _deleted(self, event: BlockDeleted) -> None:
        del self.blocks[event.namespace, event.block]

    @reads
    def _opened(self, event: LedgerOpened) -> None:
        key = (event.namespace, event.ledger.run_id)
        self._hold(Invariant.CLOSED_LEDGERS_REST, key not in self.ledgers, event)
        self.ledgers[key] = LedgerTimeline(event)

    @reads
    def _acquired(self, event: ResourcesAcquired) -> None:
        ledger = self._of(event)
        ledger.acquiring.remove(event.job)
        for key, mode in event.locks.items():
            if ledger.wanted.get(key) != "exclusive":
                ledger.wanted[key] = str(mode)

    @reads
    def _requested(self, event: LocksRequested) -> None:
        ledger = self._of(event)
        keys = {key: str(mode) for key, mode in event.keys.items()}
        whole = keys == ledger.wanted and not ledger.acquiring
        self._hold(Invariant.LOCKS_WHOLE, whole, event, ledger.wanted)
        for key, mode in keys.items():
            self._line(event.namespace, key).waiters[event.run_id] = mode

    @reads
    def _granted(self, event: LocksGranted) -> None:
        ledger = self._of(event)
        newer = event.token > self.tokens.get(event.namespace, 0)
        self._hold(Invariant.LOCK_TOKENS_GROW, newer, event, self.tokens)
        self.tokens[event.namespace] = event.token
        for key in ledger.wanted:
            line = self._line(event.namespace, key)
            self._hold(Invariant.LOCKS_WHOLE, event.run_id in line.waiters, event, key)
            mode = line.waiters[event.run_id]
            self._hold_alone(event, ledger, line, mode)
            self._hold_in_turn(event, ledger, line, mode)
            line.holders[event.run_id] = line.waiters.pop(event.run_id)
        ledger.granted = True

    def _hold_alone(
        self, event: LocksGranted, ledger: LedgerTimeline, line: LockTimeline, mode: str
    ) -> None:
        others = [one for one in line.holders if not self._is_kin(event.namespace, one, ledger)]
        modes = {line.holders[one] for one in others}
        alone = not others or (mode == "shared" and modes == {"shared"})
        self._hold(Invariant.ONE_HOLDER, alone, event, mode, line.holders)

    def _hold_in_turn(
        self, event: LocksGranted, ledger: LedgerTimeline, line: LockTimeline, mode: str
    ) -> None:
        if any(self._is_kin(event.namespace, one, ledger) for one in line.holders):
            return
        before = list(line.waiters)[: list(line.waiters).index(event.run_id)]
        others = [one for one in before if not self._is_kin(event.namespace, one, ledger)]
        modes = {mode, *(line.waiters[one] for one in others)}
        fair = not others or modes == {"shared"}
        self._hold(Invariant.LOCKS_FAIR, fair, event, mode, line.waiters)

    def _is_kin(self, namespace: Namespace, run_id: RunId, ledger: LedgerTimeline) -> bool:
        return self.ledgers[namespace, run_id].family == ledger.family

    @reads
    def _released(self, event: LocksReleased) -> None:
        """By its run, which has ended and left nothing; or by somebody, with a reason."""
        ledger = self.ledgers[event.namespace, event.run_id]
        allowed = ledger.closed is not None or (ledger.is_unsafe and event.reason != "")
        self._hold(Invariant.LOCKS_KEPT, allowed, event, ledger)
        for key in event.keys:
            line = self._line(event.namespace, key)
            line.holders.pop(event.run_id, None)
            line.waiters.pop(event.run_id, None)

    @reads
    def _entry_opened(self, event: EntryOpened) -> None:
        ledger, entry = self._of(event), event.entry
        self._hold(Invariant.LOCKED_BEFORE_EXECUTE, ledger.granted, event, ledger)
        known = ledger.entries.get(entry.number)
        if known is None:
            ledger.entries[entry.number] = EntryTimeline(entry.block, entry.wave, entry.job)
            return
        known.jobs.append(entry.job)
        known.state, known.outcome = "open", None

    @reads
    def _attempted(self, event: EntryAttempted) -> None:
        self._of(event).entries[event.number].attempts += 1

    @reads
    def _executed(self, event: EntryExecuted) -> None:
        entry = self._of(event).entries[event.number]
        block = self.blocks.get((event.namespace, entry.block))
        needless = event.state == "needless"
        never = event.outcome == "unknown" and not entry.attempts and len(entry.jobs) == 1
        allowed = not needless or never or (block is not None and block.pure)
        self._hold(Invariant.UNDONE_OR_IN_LEDGER, allowed, event, entry)
        entry.outcome, entry.state = event.outcome, str(event.state)

    @reads
    def _rollback_began(self, event: EntryRollbackBegan) -> None:
        ledger = self._of(event)
        entry = ledger.entries[event.number]
        left = [
            one
            for one in ledger.entries.values()
            if one.wave > entry.wave and one.state not in UNDONE
        ]
        in_order = ledger.is_unsafe or not left
        self._hold(Invariant.WAVES_DESCEND, in_order, event, ledger)
        block = self.blocks.get((event.namespace, entry.block))
        self._hold(Invariant.WAVES_DESCEND, block is not None and block.reversible, event, entry)
        entry.state = "rollback_in_progress"

    @reads
    def _settled(self, event: EntrySettled) -> None:
        self._of(event).entries[event.number].state = str(event.state)

    @reads
    def _ended(self, event: LedgerEnded) -> None:
        ledger = self._of(event)
        left = [one for one in ledger.entries.values() if one.state not in UNDONE]
        self._hold(Invariant.UNDONE_OR_IN_LEDGER, bool(left), event, ledger)
        ledger.is_unsafe = True

    @reads
    def _closed(self, event: LedgerClosed) -> None:
        ledger = self._of(event)
        left = [one for one in ledger.entries.values() if one.state not in UNDONE]
        as_said = event.state == "completed" or not left
        self._hold(Invariant.UNDONE_OR_IN_LEDGER, as_said, event, ledger)
        ledger.closed = str(event.state)
        self._closed_now.add(event.run_id)
