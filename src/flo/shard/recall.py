"""Finds out what decisions need to know of the archive: from memory if recent, else by asking.

    submission ──is_ready?──▸ settle
                   │ no
                   └──fetch──▸ archive ──put back──▸ is_ready? …

What is needed is worked out while the state is durable; whatever ends or leaves the archive while
that is being asked is recent, and what is recent goes before what the archive said.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from flo.core.moment import NOTHING_RECALLED, Recalled
from flo.core.recall import (
    Recall,
    RecallKey,
    RecallPage,
    RecallRun,
    is_recalled,
    recalls_for,
)
from flo.core.runs import ARCHIVE_KIND
from flo.core.state import KEYS_REMEMBERED_MAX, State
from flo.log.base import Archive
from flo.model.archive import ArchiveAddress, Archived, ArchiveKey
from flo.model.base import Word
from flo.model.errors import FloError, Unexpected
from flo.model.ids import RunId, run_id_of
from flo.model.runs import Run
from flo.shard.recent import Recent
from flo.shard.submission import Submission

_logger = structlog.get_logger("flo.shard")
_decode = msgspec.msgpack.Decoder(Run).decode


class Recaller:
    def __init__(
        self, state: State, archive: Archive, put_back: Callable[[Submission], None]
    ) -> None:
        self.recent = Recent()
        self._state = state
        self._archive = archive
        self._put_back = put_back
        self._fetching: dict[asyncio.Task[None], Submission] = {}

    def is_ready(self, submission: Submission) -> bool:
        """Whether the submission knows all that its words need to know of the archive."""
        finished = self._state.keys_finished_count
        if finished - submission.recalled_at >= KEYS_REMEMBERED_MAX:
            submission.recalled = NOTHING_RECALLED  # what it knows of keys has aged too much
        needed = self._needed(submission.words)
        if not needed:
            return True
        recent = self._recent(needed, submission.recalled)
        submission.recalled = _joined(submission.recalled, recent)
        return all(is_recalled(submission.recalled, recall) for recall in needed)

    def recall_recent(self, word: Word) -> Recalled:
        """What is in memory of the things a word needs to know of the archive."""
        return self._recent(self._needed([word]), NOTHING_RECALLED)

    def fetch(self, submission: Submission) -> None:
        """Ask the archive for what is missing, then put the submission back into the inbox."""
        submission.recalled_at = self._state.keys_finished_count
        missing = [
            recall
            for recall in self._needed(submission.words)
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

    def _needed(self, words: Sequence[Word]) -> list[Recall]:
        return [recall for word in words for recall in recalls_for(self._state, word)]

    def _recent(self, recalls: list[Recall], recalled: Recalled) -> Recalled:
        """What memory knows of these, and knows better than what was recalled of dead letters."""
        runs: dict[tuple[str, RunId], Run | None] = {}
        pages: dict[str, tuple[Run, ...]] = {}
        for recall in recalls:
            match recall:
                case RecallRun(filed_under, run_id, action, number):
                    address = ArchiveAddress(ARCHIVE_KIND, filed_under, action, number)
                    if address in self.recent:
                        row = self.recent[address]
                        runs[filed_under, run_id] = run_of(row) if row is not None else None
                case RecallPage(filed_under=filed_under, is_dead=True):
                    if filed_under in recalled.pages:
                        page = recalled.pages[filed_under]
                        pages[filed_under] = tuple(self._now(filed_under, run) for run in page)
                case _:
                    pass
        return Recalled(runs=runs, pages=pages) if runs or pages else NOTHING_RECALLED

    def _now(self, filed_under: str, run: Run) -> Run:
        """A dead letter as it is now; it may have left the archive since that was asked."""
        address = ArchiveAddress(ARCHIVE_KIND, filed_under, run.action, run.number)
        if address not in self.recent:
            return run
        row = self.recent[address]
        return run_of(row) if row is not None else replace(run, dead_lettered=False)

    async def _fetch(self, submission: Submission, missing: list[Recall]) -> None:
        try:
            found = await ask(self._archive, missing)
        except FloError as error:
            submission.refuse(error)
        except Exception as error:  # our mistake; it concerns nobody else
            _logger.exception("recall_failed")
            submission.refuse(Unexpected(f"the archive could not be asked: {error!r}"))
        else:
            submission.recalled = _joined(submission.recalled, found)
            self._put_back(submission)


async def ask(archive: Archive, recalls: Sequence[Recall]) -> Recalled:
    """What the archive knows; every question gets an answer, if only "no such"."""
    keys: dict[ArchiveKey, RunId | None] = {}
    runs: dict[tuple[str, RunId], Run | None] = {}
    pages: dict[str, tuple[Run, ...]] = {}
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
    if keys:
        numbers = await archive.find_keys(ARCHIVE_KIND, list(keys))
        keys |= {key: run_id_of(key[1], number) for key, number in numbers.items()}
    return Recalled(keys, runs, pages)


def run_of(row: Archived) -> Run:
    return _decode(row.body)


def _joined(before: Recalled, found: Recalled) -> Recalled:
    if before is NOTHING_RECALLED or found is NOTHING_RECALLED:
        return found if before is NOTHING_RECALLED else before
    return Recalled(
        {**before.keys, **found.keys},
        {**before.runs, **found.runs},
        {**before.pages, **found.pages},
    )
