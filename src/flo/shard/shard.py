"""Submit a command, commit a batch, hand out the replies.

    submit ──▸ inbox ──▸ settle each ──▸ serve who is parked ──▸ append ──▸ answer
                 ▲                                                 │
                 └──────────── what arrives meanwhile ─────────────┘  shares the next append

State runs ahead of the log only inside `_commit`, and nobody hears of it before it is durable.
With `wait_for_log` off (durability `async`) answers leave while their append is still under way;
never more than one is.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog
from msgspec.structs import replace

from flo.core.decision import Decision
from flo.core.live import Live
from flo.core.machine import VIEWS, answer, settle
from flo.core.moment import NOTHING_RECALLED, Moment
from flo.core.runs import ARCHIVE_KIND, free_at_ms
from flo.core.state import State, namespace_of
from flo.core.stream_views import is_at_end
from flo.core.views import run_result
from flo.log.base import Log
from flo.model.actions import RegisterAction
from flo.model.archive import ArchiveAddress, Archived, address_of
from flo.model.base import Fact, Word
from flo.model.errors import FloError, NotFound, Unavailable, Unexpected
from flo.model.groups import GroupRecords, ReadGroup
from flo.model.ids import run_id_of
from flo.model.kv import (
    Change,
    GetKey,
    KeyDeleted,
    KeyExpired,
    KeyPut,
    Put,
    PutKey,
    SetJson,
    Transact,
    Value,
)
from flo.model.namespaces import NamespaceDeleted
from flo.model.runs import (
    Assigned,
    Claim,
    Complete,
    Ended,
    Invoke,
    RunCancelled,
    Tick,
    Ticked,
    WaitForRuns,
)
from flo.model.streams import Append, ReadStream, RecordPage, RecordsAppended, StreamDeleted
from flo.model.workers import AwaitNews, News, WorkerDeregistered, WorkerDrained
from flo.model.workflows import ENDED, WaitForWorkflow, WorkflowFinished, WorkflowRunView
from flo.shard.chunks import Chunks
from flo.shard.clock import Clock, SystemClock
from flo.shard.recall import Recaller, run_of
from flo.shard.submission import Answer, Done, Submission
from flo.shard.timers import Timer
from flo.shard.waiters import KEY, RUN, STREAM, WORKER, Patient, Subject, Waiters

BATCH_WORDS_MAX = 1_000
BATCH_LENGTH_MAX = 64 * 1024 * 1024
"""Bytes of payload in one append, about: a log has a bound on what it takes at a time."""

_logger = structlog.get_logger("flo.shard")


class Watcher(Protocol):
    """Hears what the shard does, for metrics."""

    def committed(self, events: int, archived: int, seconds: float) -> None: ...

    def refused(self, code: str) -> None: ...


class Unwatched:
    def committed(self, events: int, archived: int, seconds: float) -> None:
        pass

    def refused(self, code: str) -> None:
        pass


class _Batch:
    """One pass of the loop: what was taken in, and what came of it."""

    def __init__(self, taken: list[Submission], moment: Moment) -> None:
        self.taken = taken
        self.moment = moment
        self.events: list[Fact] = []
        self.archived: dict[ArchiveAddress, Archived] = {}
        self.removed: list[ArchiveAddress] = []
        self.chunks = Chunks()
        self.answered: list[tuple[Submission, list[Answer]]] = []
        self.asked: list[Submission] = []
        self.unready: list[Submission] = []

    def add(self, row: Archived) -> None:
        self.archived[address_of(row)] = row

    def remove(self, address: ArchiveAddress) -> None:
        """Let the archive go of a row, even of one that this batch has just filed."""
        self.removed.append(address)
        self.archived.pop(address, None)


class Shard:
    def __init__(
        self,
        state: State,
        log: Log,
        clock: Clock | None = None,
        *,
        dice: random.Random | None = None,
        wait_for_log: bool = True,
        watcher: Watcher | None = None,
    ) -> None:
        self.state = state
        self.log = log
        self._clock = clock or SystemClock()
        self._dice = (dice or random.Random()).random
        self._wait_for_log = wait_for_log
        self._watcher = watcher or Unwatched()
        self._now_ms = self._clock.now_ms()
        self.live = Live(self._now_ms)
        self._inbox: list[Submission] = []
        self._filled = asyncio.Event()
        self._waiters = Waiters()
        self._timer = Timer(self._clock, self._tick)
        self._recaller = Recaller(state, log, self._put, self._written)
        self._appending: asyncio.Future[int] | None = None
        self._closed: FloError | None = None
        self._loop: asyncio.Task[None] | None = None

    @property
    def closed(self) -> FloError | None:
        """Why this shard takes nothing more; None while it does."""
        return self._closed

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._run(), name="shard")
        self._timer.set(self.state.due.next_at_ms())

    async def stop(self) -> None:
        """Commit what was submitted, then let go of everyone who still waits."""
        stopping = Unavailable("the server is stopping", code="server_stopping")
        self._closed = self._closed or stopping
        self._timer.cancel()
        if self._loop is not None:
            await self._recaller.finish()
            self._filled.set()
            await self._loop
            self._loop = None
        self._refuse_everyone(stopping)
        await self._recaller.finish()

    def submit(self, words: Sequence[Word], done: Done) -> Submission:
        """Hand in commands, or one question; `done` is called with an answer for each."""
        submission = Submission(words, done)
        if self._closed is not None:
            submission.refuse(self._closed)
        else:
            self._put(submission)
        return submission

    async def ask(self, word: Word) -> Word:
        """Submit one word and wait for its answer; a refusal is raised."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answers: list[Answer]) -> None:
            if not future.done():  # the asker may be cancelled as its answer comes
                future.set_result(answers[0])

        submission = self.submit([word], done)
        try:
            reply = await future
        finally:
            submission.withdraw()
        if isinstance(reply, FloError):
            raise reply
        return reply

    async def _run(self) -> None:
        taken: list[Submission] = []
        try:
            while self._inbox or self._closed is None:
                await self._filled.wait()
                await asyncio.sleep(0)  # let in what the sockets hold already: it shares the append
                taken = self._take()
                if taken:
                    await self._commit(taken)
            if self._appending is not None:
                await self._appending
        except Exception as error:
            # The state may be ahead of the log: nothing more may be said of it.
            _logger.critical("shard_failed", error=str(error), exc_info=True)
            failed = Unavailable(
                f"the server can write no more and must be restarted: {error}", code="log_failed"
            )
            self._closed = failed
            self._timer.cancel()
            for submission in taken:
                submission.refuse(failed)
            self._refuse_everyone(failed)

    def _put(self, submission: Submission) -> None:
        self._inbox.append(submission)
        self._filled.set()

    def _take(self) -> list[Submission]:
        """What has been handed in, up to about a batch."""
        count = words = length = 0
        for submission in self._inbox:
            if words >= BATCH_WORDS_MAX or length >= BATCH_LENGTH_MAX:
                break
            count += 1
            words += len(submission.words)
            length += _payload_length(submission.words)
        taken, self._inbox = self._inbox[:count], self._inbox[count:]
        if not self._inbox:
            self._filled.clear()
        return taken

    async def _commit(self, taken: list[Submission]) -> None:
        self._now_ms = max(self._now_ms, self._clock.now_ms())
        tails = self._recaller.tails
        batch = _Batch(taken, Moment(self._now_ms, self._dice, self.live, records=tails))
        for submission in tuple(taken):
            self._admit(submission, batch)
        self._serve_parked_claims(batch)
        self._serve_parked_reads(batch)
        if batch.events:
            await self._append(batch)
        for submission, answers in batch.answered:
            submission.answer(answers)
        self._answer_who_waits_for_what_is_gone(batch)
        self._answer_waits(batch)
        self._answer_who_waits_for_more(batch)
        for submission in batch.asked:
            self._answer_question(submission, batch.moment)
        for submission in batch.unready:
            self._recaller.fetch(submission, self._now_ms)
        self._timer.set(self.state.due.next_at_ms())

    def _admit(self, submission: Submission, batch: _Batch) -> None:
        first = submission.words[0]
        if type(first) in VIEWS:
            batch.asked.append(submission)
        elif not self._recaller.is_ready(submission, self._now_ms):
            batch.unready.append(submission)
        elif isinstance(first, Claim | ReadGroup) and not submission.is_open:
            pass  # its worker has gone, and would never hear of what it got
        elif isinstance(first, ReadGroup):
            self._admit_read(submission, first, batch)
        else:
            moment = self._recalling(batch.moment, submission)
            answers = [self._settle(word, moment, batch) for word in submission.words]
            if not (isinstance(first, Claim) and self._park_claim(submission, first, answers[0])):
                batch.answered.append((submission, answers))

    def _settle(self, word: Word, moment: Moment, batch: _Batch) -> Answer:
        try:
            decision = self._settle_or_recall(word, moment)
        except FloError as refusal:
            self._watcher.refused(refusal.code)
            if isinstance(refusal, Unexpected):
                _logger.exception("rule_broken", word=type(word).__name__)
            return refusal
        batch.events += decision.events
        for chunk in decision.chunks:
            self._recaller.tails.appended(chunk)
            batch.chunks.add(chunk)
        for row in decision.archived:
            self._recaller.recent.add(row)
            batch.add(row)
        for address in decision.removed:
            self._recaller.recent.remove(address)
            batch.remove(address)
        return decision.reply

    def _settle_or_recall(self, word: Word, moment: Moment) -> Decision:
        """Settle; what a word does not find may have ended with another one of the same batch."""
        try:
            return settle(self.state, word, moment)
        except NotFound:
            recalled = self._recaller.recall_recent(word, self._now_ms)
            if recalled is NOTHING_RECALLED:
                raise
            return settle(self.state, word, moment._replace(recalled=recalled))

    def _park_claim(self, submission: Submission, claim: Claim, reply: Answer) -> bool:
        """Let a claim that found nothing wait for something, if it may."""
        if not _found_nothing(reply) or not claim.block_ms or not self._may_wait(submission):
            return False
        self._waiters.park_claim(submission, claim)
        leave = lambda: self._waiters.leave_claim(submission, claim)  # noqa: E731
        again_at_ms = free_at_ms(self.state, claim, self._now_ms, self.live)
        self._park(submission, claim.block_ms, Assigned(), leave, again_at_ms)
        return True

    def _park(
        self,
        submission: Submission,
        block_ms: int,
        nothing: Word,
        leave: Callable[[], None],
        again_at_ms: int | None = None,
    ) -> None:
        """Let it wait, until it is answered or its time is over; then the answer is `nothing`.

        With `again_at_ms` it is asked again by then, if that is earlier.
        """
        if submission.until_ms is None:
            submission.until_ms = self._now_ms + block_ms
        alarm = self._clock.call_at(submission.until_ms, lambda: submission.answer([nothing]))
        submission.park(alarm, leave)
        self._wake_at(submission, again_at_ms)

    def _wake_at(self, submission: Submission, at_ms: int | None) -> None:
        """Ask again what is parked at this time, unless it has no time left by then."""
        if at_ms is not None and submission.until_ms is not None and at_ms < submission.until_ms:
            submission.ring(self._clock.call_at(at_ms, lambda: self._put_again(submission)))

    def _put_again(self, submission: Submission) -> None:
        submission.unpark()
        self._put(submission)

    def _admit_read(self, submission: Submission, read: ReadGroup, batch: _Batch) -> None:
        reply = self._read(submission, read, batch)
        if reply is None:
            batch.unready.append(submission)
        elif _is_empty(reply) and read.block_ms and self._may_wait(submission):
            self._waiters.park_read(submission, read)
            leave = lambda: self._waiters.leave_read(submission, read)  # noqa: E731
            self._park(submission, read.block_ms, GroupRecords(), leave)
        else:
            batch.answered.append((submission, [reply]))

    def _read(self, submission: Submission, read: ReadGroup, batch: _Batch) -> Answer | None:
        """What a read finds, also if it has to move on for it; None if it needs to know more."""
        while True:
            events_before = len(batch.events)
            reply = self._settle(read, self._recalling(batch.moment, submission), batch)
            if not _is_empty(reply) or len(batch.events) == events_before:
                return reply
            if not self._recaller.is_ready(submission, self._now_ms):
                return None

    def _serve_parked_reads(self, batch: _Batch) -> None:
        """Records that can be had now go to those who wait for them, in the same append."""
        seen = 0
        while seen < len(batch.events):
            news, seen = batch.events[seen:], len(batch.events)
            for submission, read in self._waiters.reads_woken_by(news, self.state):
                if not self._recaller.is_ready(submission, self._now_ms):
                    reply = None
                else:
                    reply = self._read(submission, read, batch)
                if reply is None:
                    submission.unpark()
                    batch.unready.append(submission)
                elif not _is_empty(reply):
                    submission.unpark()
                    batch.taken.append(submission)
                    batch.answered.append((submission, [reply]))

    def _may_wait(self, submission: Submission) -> bool:
        """Whether its time is not over yet."""
        return submission.until_ms is None or submission.until_ms > self._now_ms

    async def _written(self) -> None:
        """Wait until all that was said of the state can be read back from the store."""
        if self._appending is not None:
            await asyncio.shield(self._appending)

    def _serve_parked_claims(self, batch: _Batch) -> None:
        """Work that has just appeared goes to those who wait for it, in the same append."""
        events = tuple(batch.events)
        for submission, nothing in self._waiters.left_by(events):
            submission.unpark()
            batch.taken.append(submission)
            batch.answered.append((submission, [nothing]))
        for submission, claim in self._waiters.woken_by(events, self.state):
            reply = self._settle(claim, batch.moment, batch)
            if not _found_nothing(reply):
                submission.unpark()
                batch.taken.append(submission)
                batch.answered.append((submission, [reply]))
            else:
                again_at_ms = free_at_ms(self.state, claim, self._now_ms, self.live)
                self._wake_at(submission, again_at_ms)

    async def _append(self, batch: _Batch) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        if self._appending is not None:
            await self._appending
        append = self.log.append(
            batch.events,
            list(batch.archived.values()),
            self._now_ms,
            removed=batch.removed,
            chunks=batch.chunks.take(),
        )
        if self._wait_for_log:
            await append
        else:
            self._appending = asyncio.ensure_future(append)
        self._watcher.committed(len(batch.events), len(batch.archived), loop.time() - started)

    def _answer_who_waits_for_what_is_gone(self, batch: _Batch) -> None:
        """Ask again what was asked of a namespace that has been deleted."""
        for event in batch.events:
            if isinstance(event, NamespaceDeleted):
                for submission in self._waiters.questions_of(event.name):
                    submission.unpark()
                    self._answer_question(submission, batch.moment)

    def _answer_waits(self, batch: _Batch) -> None:
        """Tell those who wait for runs that ended; who waits for several hears of all at once."""
        ended: dict[Submission, Ended] = {}
        for row in batch.archived.values():
            namespace = namespace_of(row.namespace)
            if row.kind != ARCHIVE_KIND:
                continue
            run_id = run_id_of(row.name, row.number)
            waiting = self._waiters.asking_about(RUN, namespace, run_id)
            if waiting:
                result = run_result(run_of(row))
                for submission in waiting:
                    ended.setdefault(submission, Ended()).results.append(result)
        for submission, reply in ended.items():
            submission.answer([reply])

    def _answer_who_waits_for_more(self, batch: _Batch) -> None:
        """Ask again what was asked about subjects of which there is news."""
        subjects = dict.fromkeys(s for event in batch.events for s in _subjects_of(event))
        for subject in subjects:
            for submission in tuple(self._waiters.asking_about(*subject)):
                submission.unpark()
                self._answer_question(submission, batch.moment)

    def _answer_question(self, submission: Submission, moment: Moment) -> None:
        question = submission.words[0]
        try:
            if not self._recaller.is_ready(submission, self._now_ms):
                self._recaller.fetch(submission, self._now_ms)
                return
            reply = answer(self.state, question, self._recalling(moment, submission))
        except FloError as refusal:
            submission.refuse(refusal)
            return
        if not self._park_question(submission, question, reply):
            submission.answer([reply])

    def _park_question(self, submission: Submission, question: Word, reply: Word) -> bool:
        """Let a question to which there is no answer yet wait for one, if it may."""
        if not isinstance(question, Patient) or not question.block_ms:
            return False
        if not self._is_nothing_new(question, reply) or not submission.is_open:
            return False
        if not self._may_wait(submission):
            return False
        if isinstance(question, ReadStream) and isinstance(reply, RecordPage):
            question = replace(question, after=reply.last, last=0)
            submission.words = [question]
        self._waiters.park_question(submission, question)
        leave = lambda: self._waiters.leave_question(submission, question)  # noqa: E731
        self._park(submission, question.block_ms, reply, leave)
        return True

    def _is_nothing_new(self, question: Patient, reply: Word) -> bool:
        """Whether the reply says nothing that the asker does not know."""
        match question, reply:
            case WaitForRuns(), Ended(results=[], unknown=[]):
                return True
            case AwaitNews(after=after), News(last=last, cancelled=[], draining=draining):
                return last == after or not draining
            case ReadStream(), RecordPage(items=[]):
                return is_at_end(self.state, question, reply)
            case WaitForWorkflow(), WorkflowRunView(status=status):
                return status not in ENDED
            case GetKey(newer_than=None), Value(value=value):
                return value is None
            case GetKey(newer_than=version), Value(version=actual):
                return actual == version
            case _:
                return False

    def _recalling(self, moment: Moment, submission: Submission) -> Moment:
        """The moment, with what was looked up for this submission."""
        if submission.recalled is NOTHING_RECALLED and not submission.fetched:
            return moment
        reach = self._recaller.reach(submission)
        return moment._replace(recalled=submission.recalled, records=reach)

    def _tick(self) -> None:
        def ticked(answers: list[Answer]) -> None:
            if isinstance(answers[0], Ticked) and answers[0].more:
                self._tick()

        self.submit([Tick()], ticked)

    def _refuse_everyone(self, error: FloError) -> None:
        inbox, self._inbox = self._inbox, []
        for submission in (*inbox, *self._waiters.everyone(), *self._recaller.everyone()):
            submission.refuse(error)


def _payload_length(words: Sequence[Word]) -> int:
    """How many bytes the events of these words will carry for others."""
    length = 0
    for word in words:
        match word:
            case Invoke(input=payload):
                length += len(payload)
            case Complete(output=payload, changes=changes):
                length += len(payload) + _values_length(changes)
            case RegisterAction(wasm_module=bytes(module)):
                length += len(module)
            case PutKey(value=payload) | SetJson(document=payload):
                length += len(payload)
            case Append(records=records):
                length += sum(len(record.payload) for record in records)
            case Transact(changes=changes):
                length += _values_length(changes)
            case _:
                pass
    return length


def _values_length(changes: Sequence[Change]) -> int:
    return sum(len(change.value) for change in changes if isinstance(change, Put))


def _subjects_of(event: Fact) -> Iterable[Subject]:
    """Whom an event may concern who waits for news, beside those who wait for runs to end."""
    match event:
        case RunCancelled(namespace=namespace, worker_id=worker_id) if worker_id is not None:
            yield WORKER, namespace, worker_id
        case (
            WorkerDrained(namespace=namespace, worker_id=worker_id)
            | WorkerDeregistered(namespace=namespace, worker_id=worker_id)
        ):
            yield WORKER, namespace, worker_id
        case (
            RecordsAppended(namespace=namespace, stream=stream)
            | StreamDeleted(namespace=namespace, stream=stream)
        ):
            yield STREAM, namespace, stream
        case (
            KeyPut(namespace=namespace, key=key)
            | KeyDeleted(namespace=namespace, key=key)
            | KeyExpired(namespace=namespace, key=key)
        ):
            yield KEY, namespace, key
        case WorkflowFinished(namespace=namespace, run_id=run_id):
            yield RUN, namespace, run_id
        case _:
            pass


def _is_empty(reply: Answer) -> bool:
    return isinstance(reply, GroupRecords) and not reply.items and not reply.draining


def _found_nothing(reply: Answer) -> bool:
    return isinstance(reply, Assigned) and not reply.tasks and not reply.draining
