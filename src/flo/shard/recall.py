"""Finds out what decisions need to know of the archive: from memory if it is recent, else by asking.

    submission ──is_ready?──▸ settle
                   │ no
                   └──fetch──▸ archive ──put back──▸ is_ready? …

What is needed is worked out while the state is durable; whatever ends while the archive is being
asked is recent, so nothing can be missed in between.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

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
from flo.model.archive import Archived, ArchiveKey
from flo.model.base import Word
from flo.model.errors import FloError, Unexpected
from flo.model.ids import Namespace, RunId, run_id_of
from flo.model.runs import Run
from flo.shard.recent import Recent
from flo.shard.submission import Submission

_logger = structlog.get_logger("flo.shard")
_decode = msgspec.msgpack.Decoder(Run).decode
_logger = structlog.get_logger("flo.shard")


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
        missing = self._missing(submission.words, submission.recalled)
        return not missing or self._find_recent(submission, missing)

    def recall_recent(self, word: Word) -> Recalled:
        """What is in memory of the things a word needs to know of the archive."""
        return self._recent(self._missing([word], NOTHING_RECALLED))

    def fetch(self, submission: Submission) -> None:
        """Ask the archive for what is missing, then put the submission back into the inbox."""
        submission.recalled_at = self._state.keys_finished_count
        missing = self._missing(submission.words, submission.recalled)
        task = asyncio.ensure_future(self._fetch(submission, missing))
        self._fetching[task] = submission
        task.add_done_callback(self._fetching.pop)

    def everyone(self) -> list[Submission]:
        """Those that wait for the archive."""
        return list(self._fetching.values())

    async def finish(self) -> None:
        """Wait until all that was fetched has been put back."""
        await asyncio.gather(*self._fetching)

    def _missing(self, words: Sequence[Word], recalled: Recalled) -> list[Recall]:
        return [
            recall
            for word in words
            for recall in recalls_for(self._state, word)
            if not is_recalled(recalled, recall)
        ]

    def _find_recent(self, submission: Submission, missing: list[Recall]) -> bool:
        found = self._recent(missing)
        submission.recalled = _joined(submission.recalled, found)
        return all(is_recalled(found, recall) for recall in missing)

    def _recent(self, recalls: list[Recall]) -> Recalled:
        runs: dict[tuple[Namespace, RunId], Run | None] = {}
        for recall in recalls:
            if isinstance(recall, RecallRun):
                row = self.recent.find(recall.filed_under, recall.action, recall.number)
                if row is not None:
                    runs[recall.namespace, recall.run_id] = run_of(row)
        return Recalled(runs=runs) if runs else NOTHING_RECALLED

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
    runs: dict[tuple[Namespace, RunId], Run | None] = {}
    page: tuple[Run, ...] | None = None
    for recall in recalls:
        match recall:
            case RecallRun(namespace, run_id, filed_under, action, number):
                row = await archive.find(ARCHIVE_KIND, filed_under, action, number)
                runs[namespace, run_id] = run_of(row) if row is not None else None
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
                page = tuple((found | {run.number: run for run in live}).values())
            case RecallKey(key):
                keys[key] = None
    filed = {
        (recall.filed_under, *recall.key[1:]): recall.key
        for recall in recalls
        if isinstance(recall, RecallKey)
    }
    if filed:
        numbers = await archive.find_keys(ARCHIVE_KIND, list(filed))
        keys |= {filed[key]: run_id_of(key[1], number) for key, number in numbers.items()}
    return Recalled(keys, runs, page)


def run_of(row: Archived) -> Run:
    return _decode(row.body)


def _joined(before: Recalled, found: Recalled) -> Recalled:
    if before is NOTHING_RECALLED or found is NOTHING_RECALLED:
        return found if before is NOTHING_RECALLED else before
    page = found.page if found.page is not None else before.page
    return Recalled({**before.keys, **found.keys}, {**before.runs, **found.runs}, page)
