"""Finds out what decisions need to know of the store: from memory if recent, else by asking.

    submission ──is_ready?──▸ settle
                   │ no
                   └──fetch──▸ archive, records ──put back──▸ is_ready? …

What is needed is worked out while the state is durable; whatever ends or leaves the archive while
that is being asked is recent, and what is recent goes before what the archive said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from flo.engine.context import NOTHING_RECALLED, Recalled, RecordReader
from flo.engine.groups.dead_letters import ARCHIVE_KIND as LETTER_KIND
from flo.engine.groups.dead_letters import gone
from flo.engine.groups.records import Letter
from flo.engine.lookup import (
    Recall,
    RecallKey,
    RecallPage,
    RecallRun,
    is_recalled,
    recalls_for,
)
from flo.engine.runs.ends import ARCHIVE_KIND
from flo.engine.runs.records import Run
from flo.engine.state import KEYS_REMEMBERED_MAX, State
from flo.engine.streams.lookups import (
    Known,
    RecallLetter,
    RecallLetters,
    RecallPlace,
    RecallRecords,
)
from flo.engine.workflows.folds import (
    HISTORY_KIND,
    ID_KIND,
    RUN_KIND,
    SUMMARY_KIND,
    workflow_key,
)
from flo.engine.workflows.lookups import (
    LEADING_ON,
    RecallHistory,
    RecallWorkflow,
    RecallWorkflowKey,
    RecallWorkflows,
)
from flo.engine.workflows.records import HistoryEntry, WorkflowRecord, WorkflowSummary
from flo.log.base import Archive, Log, Records
from flo.model.archive import ArchiveAddress, Archived, ArchiveKey
from flo.model.base import Message
from flo.model.errors import Corrupt, FloError, Unexpected
from flo.model.ids import RunId, run_id_of
from flo.model.streams import Chunk, StreamPosition
from flo.model.workflows import CHOSEN, RUN_PREFIX
from flo.shard.recent import Recent
from flo.shard.record_cache import RecordCache, Within
from flo.shard.submission import Submission

FETCH_LENGTH_MAX = 1024 * 1024
"""About so many bytes of records are fetched at a time."""

_logger = structlog.get_logger("flo.shard")
_decode = msgspec.msgpack.Decoder(Run).decode
_decode_letter = msgspec.msgpack.Decoder(Letter).decode
_decode_workflow = msgspec.msgpack.Decoder(WorkflowRecord).decode
_decode_summary = msgspec.msgpack.Decoder(WorkflowSummary).decode
_decode_history = msgspec.msgpack.Decoder(tuple[HistoryEntry, ...]).decode


class Recaller:
    def __init__(
        self,
        state: State,
        log: Log,
        put_back: Callable[[Submission], None],
        written: Callable[[], Awaitable[None]],
    ) -> None:
        self.recent = Recent()
        self.tails = RecordCache()
        self._state = state
        self._log = log
        self._put_back = put_back
        self._written = written
        self._fetching: dict[asyncio.Task[None], Submission] = {}

    def reach(self, submission: Submission) -> RecordReader:
        """The records that are in memory, for this submission at least."""
        return Within(self.tails, submission.fetched) if submission.fetched else self.tails

    def is_ready(self, submission: Submission, now_ms: int) -> bool:
        """Whether the submission knows all that its words need to know of the store."""
        finished = self._state.keys_finished_count
        if finished - submission.recalled_at >= KEYS_REMEMBERED_MAX:
            submission.recalled = NOTHING_RECALLED  # what it knows of keys has aged too much
        needed = self._needed(submission, now_ms)
        if not needed:
            return True
        recent = self._recent(needed, submission.recalled)
        submission.recalled = _joined(submission.recalled, recent)
        if recent.workflows and type(submission.messages[0]) in LEADING_ON:
            needed = self._needed(submission, now_ms)
        return all(is_recalled(submission.recalled, recall) for recall in needed)

    def recall_recent(self, message: Message, now_ms: int) -> Recalled:
        """What is in memory of the things a word needs to know of the archive."""
        known = Known(now_ms, NOTHING_RECALLED, self.tails)
        return self._recent(list(recalls_for(self._state, message, known)), NOTHING_RECALLED)

    def fetch(self, submission: Submission, now_ms: int) -> None:
        """Ask the store for what is missing, then put the submission back into the inbox."""
        submission.recalled_at = self._state.keys_finished_count
        missing = [
            recall
            for recall in self._needed(submission, now_ms)
            if not is_recalled(submission.recalled, recall)
        ]
        task = asyncio.ensure_future(self._fetch(submission, missing))
        self._fetching[task] = submission
        task.add_done_callback(self._fetching.pop)

    def everyone(self) -> list[Submission]:
        """Those that wait for the archive."""
        return list(self._fetching.values())

    async def finish(self) -> None:
        """Wait until all that was fetched has been put back."""
        await asyncio.gather(*self._fetching)

    def _needed(self, submission: Submission, now_ms: int) -> list[Recall]:
        known = Known(now_ms, submission.recalled, self.reach(submission))
        return [
            recall
            for message in submission.messages
            for recall in recalls_for(self._state, message, known)
        ]

    def _recent(self, recalls: list[Recall], recalled: Recalled) -> Recalled:
        """What memory knows of these, and knows better than what was recalled of dead letters."""
        runs: dict[tuple[str, RunId], Run | None] = {}
        pages: dict[str, tuple[Run, ...]] = {}
        letters: dict[ArchiveAddress, Letter | None] = {}
        letter_pages: dict[str, tuple[Letter, ...]] = {}
        workflows: dict[tuple[str, RunId], WorkflowRecord | None] = {}
        for recall in recalls:
            match recall:
                case RecallRun(filed_under, run_id, action, number):
                    address = ArchiveAddress(ARCHIVE_KIND, filed_under, action, number)
                    if address in self.recent:
                        row = self.recent[address]
                        runs[filed_under, run_id] = run_of(row) if row is not None else None
                case RecallPage(filed_under=name, is_dead=True) if name in recalled.pages:
                    pages[name] = tuple(self._now(name, run) for run in recalled.pages[name])
                case RecallLetter(address) if address in self.recent:
                    letters[address] = _letter_of(self.recent[address])
                case RecallWorkflow(filed_under, run_id, number):
                    address = ArchiveAddress(RUN_KIND, filed_under, RUN_PREFIX, number)
                    if address in self.recent:
                        workflows[filed_under, run_id] = _workflow_of(self.recent[address])
                case RecallLetters(filed_under, name) if name in recalled.letter_pages:
                    page = recalled.letter_pages[name]
                    letter_pages[name] = self._left_of(filed_under, name, page)
                case _:
                    pass
        if not (runs or pages or letters or letter_pages or workflows):
            return NOTHING_RECALLED
        return Recalled(
            runs=runs,
            pages=pages,
            letters=letters,
            letter_pages=letter_pages,
            workflows=workflows,
        )

    def _left_of(self, filed_under: str, name: str, page: Sequence[Letter]) -> tuple[Letter, ...]:
        """The letters as they are now; of those that have left the archive, only the place."""
        return tuple(
            gone(letter) if self._is_gone(filed_under, name, letter) else letter for letter in page
        )

    def _is_gone(self, filed_under: str, name: str, letter: Letter) -> bool:
        address = ArchiveAddress(LETTER_KIND, filed_under, name, letter.record.sequence)
        return address in self.recent and self.recent[address] is None

    def _now(self, filed_under: str, run: Run) -> Run:
        """A dead letter as it is now; it may have left the archive since that was asked."""
        address = ArchiveAddress(ARCHIVE_KIND, filed_under, run.action, run.number)
        if address not in self.recent:
            return run
        row = self.recent[address]
        return run_of(row) if row is not None else replace(run, dead_lettered=False)

    async def _fetch(self, submission: Submission, missing: list[Recall]) -> None:
        try:
            await self._written()
            found = await ask(self._log.archive, missing)
            chunks = await self._ask_records(missing)
            places = await ask_places(self._log.records, missing)
            workflows = await ask_workflows(self._log.archive, missing)
        except FloError as error:
            submission.refuse(error)
        except Exception as error:  # our mistake; it concerns nobody else
            _logger.exception("recall_failed")
            submission.refuse(Unexpected(f"the archive could not be asked: {error!r}"))
        else:
            found = _joined(found._replace(places=places), workflows)
            submission.recalled = _joined(submission.recalled, found)
            self.tails.fetched(chunks)
            submission.fetched = {
                (chunk.stream, record.sequence): record
                for chunk in chunks
                for record in chunk.records
            }
            self._put_back(submission)

    async def _ask_records(self, missing: Sequence[Recall]) -> list[Chunk]:
        """The chunks that hold the records which are missing."""
        found: list[Chunk] = []
        for recall in missing:
            if isinstance(recall, RecallRecords):
                stream, sequence, limit = recall
                chunks = await self._log.records.read(stream, sequence, limit, FETCH_LENGTH_MAX)
                if not chunks and self._keeps(stream, sequence):
                    raise Corrupt(f"record {sequence} of stream {stream} is missing in the store")
                found += chunks
        return found

    def _keeps(self, number: int, sequence: int) -> bool:
        """Whether a record should be there; its stream may have been trimmed or deleted."""
        return any(
            stream.number == number and stream.first <= sequence
            for space in self._state.spaces.values()
            for stream in space.streams.values()
        )


async def ask(archive: Archive, recalls: Sequence[Recall]) -> Recalled:
    """What the archive knows; every question gets an answer, if only "no such"."""
    keys: dict[ArchiveKey, RunId | None] = {}
    runs: dict[tuple[str, RunId], Run | None] = {}
    pages: dict[str, tuple[Run, ...]] = {}
    letters: dict[ArchiveAddress, Letter | None] = {}
    letter_pages: dict[str, tuple[Letter, ...]] = {}
    for recall in recalls:
        match recall:
            case RecallRun(filed_under, run_id, action, number):
                row = await archive.find(ARCHIVE_KIND, filed_under, action, number)
                runs[filed_under, run_id] = run_of(row) if row is not None else None
            case RecallPage(filed_under, action, below, limit, status, is_dead, live):
                rows = await archive.page(
                    ARCHIVE_KIND,
                    filed_under,
                    action,
                    below=below,
                    limit=limit,
                    status=status,
                    is_dead=is_dead,
                )
                found = {row.number: run_of(row) for row in rows}
                found |= {run.number: run for run in live}
                pages[filed_under] = tuple(found.values())
            case RecallKey():
                keys[recall] = None
            case RecallLetter(address):
                letters[address] = _letter_of(await archive.find(*address))
            case RecallLetters(filed_under, name, below, limit):
                rows = await archive.page(
                    LETTER_KIND, filed_under, name, below=below, limit=limit, is_dead=True
                )
                letter_pages[name] = tuple(_decode_letter(row.body) for row in rows)
            case _:
                pass  # somebody else is asked
    if keys:
        numbers = await archive.find_keys(ARCHIVE_KIND, list(keys))
        keys |= {key: run_id_of(key[1], number) for key, number in numbers.items()}
    return Recalled(keys, runs, pages, letters=letters, letter_pages=letter_pages)


async def ask_workflows(archive: Archive, recalls: Sequence[Recall]) -> Recalled:
    """What the archive knows of workflow runs."""
    workflows: dict[tuple[str, RunId], WorkflowRecord | None] = {}
    keys: dict[tuple[str, str, str], RunId | None] = {}
    pages: dict[str, tuple[WorkflowSummary, ...]] = {}
    parts: dict[tuple[str, RunId, int], tuple[HistoryEntry, ...]] = {}
    for recall in recalls:
        match recall:
            case RecallWorkflow(filed_under, run_id, number):
                row = await archive.find(RUN_KIND, filed_under, RUN_PREFIX, number)
                workflows[filed_under, run_id] = _workflow_of(row)
            case RecallWorkflowKey():
                keys[recall] = await _run_with_key(archive, recall)
            case RecallWorkflows(filed_under):
                pages[filed_under] = await _summaries(archive, recall)
            case RecallHistory(filed_under, run_id, part):
                row = await archive.find(HISTORY_KIND, filed_under, run_id, part)
                parts[recall] = _decode_history(row.body) if row is not None else ()
            case _:
                pass
    return Recalled(
        workflows=workflows, workflow_keys=keys, workflow_pages=pages, history_parts=parts
    )


async def _run_with_key(archive: Archive, recall: RecallWorkflowKey) -> RunId | None:
    filed_under, workflow, key = recall
    kind = ID_KIND if workflow == CHOSEN else RUN_KIND
    wanted = (filed_under, RUN_PREFIX, workflow_key(workflow, key))
    number = (await archive.find_keys(kind, [wanted])).get(wanted)
    if number is None:
        return None
    if workflow == CHOSEN:
        return run_id_of(RUN_PREFIX, number)
    record = _workflow_of(await archive.find(RUN_KIND, filed_under, RUN_PREFIX, number))
    return record.run.run_id if record is not None else None


async def _summaries(archive: Archive, recall: RecallWorkflows) -> tuple[WorkflowSummary, ...]:
    """A page of runs that have ended, and those that were live when they were asked for."""
    kind, name = SUMMARY_KIND, recall.workflow
    if name is None:
        kind, name = RUN_KIND, RUN_PREFIX
    rows = await archive.page(
        kind,
        recall.filed_under,
        name,
        below=recall.below,
        limit=recall.limit,
        status=recall.status,
    )
    found = {row.number: _summary_of(row) for row in rows}
    found |= {one.number: one for one in recall.live}
    return tuple(found[number] for number in sorted(found, reverse=True)[: recall.limit])


def _summary_of(row: Archived) -> WorkflowSummary:
    if row.kind == SUMMARY_KIND:
        return _decode_summary(row.body)
    record = _decode_workflow(row.body)
    return WorkflowSummary(
        run_id=record.run.run_id,
        number=record.run.number,
        workflow=record.run.workflow,
        version=record.run.version,
        status=record.status,
        created_at_ms=record.run.created_at_ms,
        finished_at_ms=record.finished_at_ms,
        attributes=record.run.attributes,
    )


def _workflow_of(row: Archived | None) -> WorkflowRecord | None:
    return _decode_workflow(row.body) if row is not None else None


async def ask_places(
    records: Records, recalls: Sequence[Recall]
) -> dict[tuple[int, str], StreamPosition]:
    places: dict[tuple[int, str], StreamPosition] = {}
    for recall in recalls:
        if isinstance(recall, RecallPlace):
            stream, what, by, least, end = recall
            places[stream, what] = await records.place(stream, by, least) or end
    return places


def run_of(row: Archived) -> Run:
    return _decode(row.body)


def _letter_of(row: Archived | None) -> Letter | None:
    return _decode_letter(row.body) if row is not None else None


def _joined(before: Recalled, found: Recalled) -> Recalled:
    if before is NOTHING_RECALLED or found is NOTHING_RECALLED:
        return found if before is NOTHING_RECALLED else before
    return Recalled(
        {**before.keys, **found.keys},
        {**before.runs, **found.runs},
        {**before.pages, **found.pages},
        {**before.places, **found.places},
        {**before.letters, **found.letters},
        {**before.letter_pages, **found.letter_pages},
        {**before.workflows, **found.workflows},
        {**before.workflow_keys, **found.workflow_keys},
        {**before.workflow_pages, **found.workflow_pages},
        {**before.history_parts, **found.history_parts},
    )
