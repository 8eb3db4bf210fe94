"""Submit a command, decide, append, hand out the replies.

    submit ──▸ inbox ──▸ settle each ──▸ open batch ──▸ serve who is parked ──▸ append ──▸ answer
                                             ▲                                     │
                                             └──── what arrives meanwhile shares ──┘
                                                   the next append

One append is under way at a time. What arrives meanwhile is decided at once: state is ahead of the
log by the batch that is being written and by the open one, and nobody hears of either before it is
durable. A batch is closed when the one before it has been written, and all its answers are made
then, of the state as it leaves it.

With `wait_for_log` off (durability `async`) answers leave while their append is still under way.
"""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import structlog
from msgspec.structs import replace

from flo.engine.context import NOTHING_RECALLED, Context
from flo.engine.decision import Decision
from flo.engine.machine import QUERIES, answer, settle
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.queries import run_result
from flo.engine.runs.claims import free_at_ms
from flo.engine.runs.ends import ARCHIVE_KIND
from flo.engine.state import State, namespace_of
from flo.engine.volatile import VolatileState
from flo.engine.workflows.queries import is_under_way
from flo.log.base import Log
from flo.model.archive import address_of
from flo.model.base import Event, Message
from flo.model.errors import FloError, NotFound, Unavailable, Unexpected
from flo.model.groups import GroupRecords, ReadGroup
from flo.model.ids import run_id_of
from flo.model.runs import Assigned, Claim, Ended, Tick, Ticked
from flo.model.streams import ReadStream, RecordPage
from flo.model.workflows import WaitForWorkflow
from flo.shard.batch import Batch
from flo.shard.clock import Clock, SystemClock
from flo.shard.long_polls import RUN, Patient, Waiters
from flo.shard.news import found_nothing, is_empty, is_nothing_new, notifications_of
from flo.shard.parking import Parking
from flo.shard.prefetch import Recaller, run_of
from flo.shard.submission import Answer, Done, Submission
from flo.shard.timers import Timer

_logger = structlog.get_logger("flo.shard")


class CommitWatcher(Protocol):
    """Hears what the shard does, for metrics."""

    def committed(self, events: int, archived: int, seconds: float) -> None: ...

    def refused(self, code: str) -> None: ...


class Unwatched:
    def committed(self, events: int, archived: int, seconds: float) -> None:
        pass

    def refused(self, code: str) -> None:
        pass


class Shard:
    def __init__(
        self,
        state: State,
        log: Log,
        clock: Clock | None = None,
        *,
        rng: random.Random | None = None,
        wait_for_log: bool = True,
        watcher: CommitWatcher | None = None,
    ) -> None:
        self.state = state
        self.log = log
        self._clock = clock or SystemClock()
        self._rng = (rng or random.Random()).random
        self._wait_for_log = wait_for_log
        self._watcher = watcher or Unwatched()
        self._now_ms = self._clock.now_ms()
        self.live = VolatileState(self._now_ms)
        self._inbox: list[Submission] = []
        self._filled = asyncio.Event()
        self._batch = Batch()
        self._waiters = Waiters()
        self._parking = Parking(self._clock, self._put, self._tell)
        self._timer = Timer(self._clock, self._tick)
        self._recaller = Recaller(state, log, self._put, self.written)
        self._context = Context(self._now_ms, self._rng, self.live, records=self._recaller.tails)
        self._appending: asyncio.Future[int] | None = None
        self._begun_count = 0
        self._written_count = 0
        self._closed: FloError | None = None
        self._failed = False
        self._loop: asyncio.Task[None] | None = None

    @property
    def closed(self) -> FloError | None:
        """Why this shard takes nothing more; None while it does."""
        return self._closed

    @property
    def ahead(self) -> Sequence[Event]:
        """What is in the state, and not yet on its way to the log."""
        return self._batch.events

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

    def submit(self, messages: Sequence[Message], done: Done) -> Submission:
        """Hand in commands, or one question; `done` is called with an answer for each."""
        submission = Submission(messages, done)
        if self._closed is not None:
            submission.refuse(self._closed)
        else:
            self._put(submission)
        return submission

    async def ask(self, message: Message) -> Message:
        """Submit one word and wait for its answer; a refusal is raised."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answers: list[Answer]) -> None:
            if not future.done():  # the asker may be cancelled as its answer comes
                future.set_result(answers[0])

        submission = self.submit([message], done)
        try:
            reply = await future
        finally:
            submission.withdraw()
        if isinstance(reply, FloError):
            raise reply
        return reply

    async def written(self) -> None:
        """Wait until all that is in the state now is in the store as well."""
        count = self._begun_count + bool(self._batch.events)
        while self._written_count < count and self._appending is not None:
            await asyncio.wait({self._appending})
        if self._written_count < count:
            raise self._closed or Unavailable("the append was broken off", code="log_failed")

    async def _run(self) -> None:
        while self._inbox or self._closed is None:
            await self._filled.wait()
            if self._appending is not None and self._batch.is_full:
                await asyncio.wait({self._appending})
            if self._failed:
                break
            try:
                self._take_in()
            except Exception as error:
                self._fail(error)
        while self._appending is not None:
            await asyncio.wait({self._appending})

    def _put(self, submission: Submission) -> None:
        if self._failed and self._closed is not None:
            submission.refuse(self._closed)
        else:
            self._inbox.append(submission)
            self._filled.set()

    def _take_in(self) -> None:
        """Decide what has been handed in, up to about a batch."""
        self._look_at_the_clock()
        count, batch = 0, self._batch
        for submission in self._inbox:
            if batch.is_full:
                break
            count += 1
            batch.take(submission)
        taken, self._inbox = self._inbox[:count], self._inbox[count:]
        if not self._inbox:
            self._filled.clear()
        for submission in taken:
            self._admit(submission, batch)
        if self._appending is None or not (self._wait_for_log or batch.events):
            self._commit()

    def _commit(self) -> None:
        """Close the batch: write what was decided, and then hand out the answers."""
        self._look_at_the_clock()
        batch = self._batch
        self._let_go_of_who_left(batch)
        self._serve_parked_reads(batch)
        self._serve_parked_claims(batch)  # after the reads: those of triggers queue runs
        self._answer_who_waits_for_what_is_gone(batch)
        self._answer_waits(batch)
        self._answer_who_waits_for_more(batch)
        for submission in batch.asked:
            self._answer_question(submission, batch)
        self._batch = Batch()
        if batch.events and not self._append(batch):
            return
        if not batch.events or not self._wait_for_log:
            batch.deliver()
        for submission in batch.unready:
            self._recaller.fetch(submission, self._now_ms)
        self._timer.set(self.state.due.next_at_ms())

    def _look_at_the_clock(self) -> None:
        self._now_ms = max(self._now_ms, self._clock.now_ms())
        self._context = replace(self._context, now_ms=self._now_ms)

    def _append(self, batch: Batch) -> bool:
        """Begin to write it, or write it; whether that has not failed yet."""
        started = asyncio.get_running_loop().time()
        try:
            append = self.log.append(
                batch.events,
                list(batch.archived.values()),
                self._now_ms,
                removed=batch.removed,
                chunks=batch.chunks.take(),
                here=batch.is_small and self._wait_for_log,
            )
        except Exception as error:
            self._fail(error, batch)
            return False
        self._begun_count += 1
        self._appending = asyncio.ensure_future(append)
        if self._appending.done():  # it was written here and now
            self._appended(batch, started, self._appending)
        else:
            self._appending.add_done_callback(partial(self._appended, batch, started))
        return not self._failed

    def _appended(self, batch: Batch, started: float, append: asyncio.Future[int]) -> None:
        self._appending = None
        if append.cancelled():
            return
        error = append.exception()
        if error is not None:
            self._fail(error, batch)
            return
        self._written_count += 1
        took = asyncio.get_running_loop().time() - started
        self._watcher.committed(len(batch.events), len(batch.archived), took)
        if self._wait_for_log:
            batch.deliver()
        try:
            if not (self._batch.is_empty or self._failed):
                self._commit()
        except Exception as failure:
            self._fail(failure)

    def _fail(self, error: BaseException, batch: Batch | None = None) -> None:
        """The state is ahead of the log for good: nothing more may be said of it."""
        _logger.critical("shard_failed", error=str(error), exc_info=error)
        failed = Unavailable(
            f"the server can write no more and must be restarted: {error}", code="log_failed"
        )
        self._closed, self._failed = failed, True
        self._timer.cancel()
        for submission in (*(batch.everyone() if batch else ()), *self._batch.everyone()):
            submission.refuse(failed)
        self._refuse_everyone(failed)
        self._filled.set()

    def _admit(self, submission: Submission, batch: Batch) -> None:
        first = submission.messages[0]
        if type(first) in QUERIES:
            batch.asked.append(submission)
        elif not self._recaller.is_ready(submission, self._now_ms):
            batch.unready.append(submission)
        elif isinstance(first, ReadGroup):
            if submission.is_open:  # else its reader has gone, and would never hear of what it got
                self._admit_read(submission, first, batch)
        elif not isinstance(first, Claim):
            context = self._recalling(submission)
            answers = [self._settle(message, context, batch) for message in submission.messages]
            batch.answered.append((submission, answers))
        elif submission.is_open:
            self._serve_parked_claims(batch)  # who has waited comes before who comes now
            reply = self._settle(first, self._recalling(submission), batch)
            if not self._park_claim(submission, first, reply):
                batch.answered.append((submission, [reply]))

    def _settle(self, message: Message, context: Context, batch: Batch) -> Answer:
        try:
            decision = self._settle_or_recall(message, context)
        except FloError as refusal:
            self._watcher.refused(refusal.code)
            if isinstance(refusal, Unexpected):
                _logger.exception("rule_broken", message=type(message).__name__)
            return refusal
        batch.events += decision.events
        for chunk in decision.chunks:
            self._recaller.tails.appended(chunk)
            batch.chunks.add(chunk)
        for row in decision.archived:
            address = address_of(row)
            self._recaller.recent[address] = row
            batch.archived[address] = row
        for address in decision.removed:
            self._recaller.recent[address] = None
            batch.remove(address)
        return decision.reply

    def _settle_or_recall(self, message: Message, context: Context) -> Decision:
        """Settle; what a word does not find may have ended with another one of the same batch."""
        try:
            return settle(self.state, message, context)
        except NotFound:
            recalled = self._recaller.recall_recent(message, self._now_ms)
            if recalled is NOTHING_RECALLED:
                raise
            return settle(self.state, message, replace(context, recalled=recalled))

    def _park_claim(self, submission: Submission, claim: Claim, reply: Answer) -> bool:
        """Let a claim that found nothing wait for something, if it may."""
        if not found_nothing(reply) or not self._may_park(submission, claim.block_ms):
            return False
        self._waiters.park_claim(submission, claim)
        leave = lambda: self._waiters.leave_claim(submission, claim)  # noqa: E731
        again_at_ms = free_at_ms(self.state, claim, self._now_ms, self.live)
        self._parking.park(submission, self._now_ms + claim.block_ms, Assigned(), leave)
        self._parking.wake_at(submission, again_at_ms)
        return True

    def _tell(self, submission: Submission, reply: Answer) -> None:
        """Once all that it was made of is durable."""
        if self._appending is None:
            submission.answer([reply])
        else:
            self._batch.answered.append((submission, [reply]))

    def _admit_read(self, submission: Submission, read: ReadGroup, batch: Batch) -> None:
        reply = self._read(submission, read, batch)
        if reply is None:
            batch.unready.append(submission)
        elif is_empty(reply) and self._may_park(submission, read.block_ms):
            self._waiters.park_read(submission, read)
            leave = lambda: self._waiters.leave_read(submission, read)  # noqa: E731
            self._parking.park(submission, self._now_ms + read.block_ms, GroupRecords(), leave)
        else:
            batch.answered.append((submission, [reply]))

    def _read(self, submission: Submission, read: ReadGroup, batch: Batch) -> Answer | None:
        """What a read finds, also if it has to move on for it; None if it needs to know more."""
        while True:
            events_before = len(batch.events)
            reply = self._settle(read, self._recalling(submission), batch)
            if not is_empty(reply) or len(batch.events) == events_before:
                return reply
            if not self._recaller.is_ready(submission, self._now_ms):
                return None

    def _serve_parked_reads(self, batch: Batch) -> None:
        """Records that can be had now go to those who wait for them, in the same append."""
        seen = 0
        while seen < len(batch.events):
            notifications, seen = batch.events[seen:], len(batch.events)
            for submission, read in self._waiters.reads_woken_by(notifications, self.state):
                if not self._recaller.is_ready(submission, self._now_ms):
                    reply = None
                else:
                    reply = self._read(submission, read, batch)
                if reply is None:
                    submission.unpark()
                    batch.unready.append(submission)
                elif not is_empty(reply):
                    submission.unpark()
                    batch.answered.append((submission, [reply]))

    def _may_park(self, submission: Submission, block_ms: int) -> bool:
        return self._parking.is_open(submission, block_ms, self._now_ms)

    def _let_go_of_who_left(self, batch: Batch) -> None:
        """A worker that has left waits for nothing more."""
        for submission, nothing in self._waiters.left_by(batch.events):
            submission.unpark()
            batch.answered.append((submission, [nothing]))

    def _serve_parked_claims(self, batch: Batch) -> None:
        """Work that has just appeared goes to those who wait for it, in the same append."""
        for submission, claim in self._waiters.woken_by(batch.not_offered(), self.state):
            reply = self._settle(claim, self._context, batch)
            if not found_nothing(reply):
                submission.unpark()
                batch.answered.append((submission, [reply]))
            else:
                again_at_ms = free_at_ms(self.state, claim, self._now_ms, self.live)
                self._parking.wake_at(submission, again_at_ms)

    def _answer_who_waits_for_what_is_gone(self, batch: Batch) -> None:
        """Ask again what was asked of a namespace that has been deleted."""
        if NamespaceDeleted not in map(type, batch.events):
            return
        for event in batch.events:
            if isinstance(event, NamespaceDeleted):
                for submission in self._waiters.questions_of(event.name):
                    submission.unpark()
                    self._answer_question(submission, batch)

    def _answer_waits(self, batch: Batch) -> None:
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
            submission.unpark()
            batch.answered.append((submission, [reply]))

    def _answer_who_waits_for_more(self, batch: Batch) -> None:
        """Ask again what was asked about subjects of which there is news."""
        for subject in notifications_of(batch.events):
            for submission in tuple(self._waiters.asking_about(*subject)):
                submission.unpark()
                self._answer_question(submission, batch)

    def _answer_question(self, submission: Submission, batch: Batch) -> None:
        query = submission.messages[0]
        patient = query if isinstance(query, Patient) else None
        if patient is not None and not self._may_park(submission, patient.block_ms):
            patient = None
        try:
            if isinstance(patient, WaitForWorkflow) and is_under_way(self.state, patient):
                self._park_question(submission, patient, None)
                return
            if not self._recaller.is_ready(submission, self._now_ms):
                batch.unready.append(submission)
                return
            reply = answer(self.state, query, self._recalling(submission))
        except FloError as refusal:
            batch.answered.append((submission, [refusal]))
            return
        if patient is not None and is_nothing_new(self.state, patient, reply):
            if isinstance(patient, ReadStream) and isinstance(reply, RecordPage):
                patient = replace(patient, after=reply.last, last=0)
                submission.messages = [patient]
            self._park_question(submission, patient, reply)
        else:
            batch.answered.append((submission, [reply]))

    def _park_question(
        self, submission: Submission, query: Patient, nothing: Answer | None
    ) -> None:
        self._waiters.park_question(submission, query)
        leave = lambda: self._waiters.leave_question(submission, query)  # noqa: E731
        self._parking.park(submission, self._now_ms + query.block_ms, nothing, leave)

    def _recalling(self, submission: Submission) -> Context:
        """The moment, with what was looked up for this submission."""
        if submission.recalled is NOTHING_RECALLED and not submission.fetched:
            return self._context
        reach = self._recaller.reach(submission)
        return replace(self._context, recalled=submission.recalled, records=reach)

    def _tick(self) -> None:
        def ticked(answers: list[Answer]) -> None:
            if isinstance(answers[0], Ticked) and answers[0].more:
                self._tick()

        self.submit([Tick()], ticked)

    def _refuse_everyone(self, error: FloError) -> None:
        inbox, self._inbox = self._inbox, []
        for submission in (*inbox, *self._waiters.everyone(), *self._recaller.everyone()):
            submission.refuse(error)
