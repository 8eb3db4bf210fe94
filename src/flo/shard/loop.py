"""Submit a command, decide, append, hand out the replies.

    submit ──▸ inbox ──▸ execute each ──▸ open batch ──▸ serve who waits ──▸ append ──▸ answer
                                              ▲                                 │
                                              └── what arrives meanwhile shares ┘
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

import structlog
from msgspec.structs import replace

from flo.engine.callers import note_of
from flo.engine.context import Context
from flo.engine.decision import NOTHING_BESIDE, Decision
from flo.engine.long_poll import COMMAND_TURNS
from flo.engine.lookup import Found
from flo.engine.machine import LONG_POLLS, QUERIES, execute, query
from flo.engine.requests.once import KeyedRequests
from flo.engine.state import State
from flo.engine.ticks import Tick, Ticked
from flo.engine.volatile import VolatileState
from flo.log.base import Log
from flo.model.base import Event, Message
from flo.model.errors import RETRY_AFTER, FloError, Unavailable, Unexpected
from flo.model.storage.archive import address_of
from flo.model.storage.caller import SERVER, TIMER, Caller
from flo.model.storage.payloads import SPILL_BYTES
from flo.model.storage.request_keys import RequestKeys
from flo.shard.batch import CommitBatch
from flo.shard.clock import Clock, SystemClock
from flo.shard.fill import Filler
from flo.shard.inbox import Inbox
from flo.shard.long_polls import LongPolls
from flo.shard.prefetch import HERE, Elsewhere, Prefetch
from flo.shard.submission import Answer, Done, Submission
from flo.shard.timers import Timer
from flo.shard.watcher import CommitWatcher, Unwatched

MESSAGES_AT_ONCE = 128
"""So many are decided before the loop looks at what has come in meanwhile."""
RETRY_AFTER_MS = 5_000
"""What a caller is told to wait who is refused because the disk has failed."""

_logger = structlog.get_logger("flo.shard")


class Shard:
    def __init__(
        self,
        state: State,
        log: Log,
        clock: Clock | None = None,
        *,
        rng: random.Random | None = None,
        wait_for_log: bool = True,
        spill_bytes: int = SPILL_BYTES,
        watcher: CommitWatcher | None = None,
        elsewhere: Elsewhere = HERE,
    ) -> None:
        self.log = log
        self._clock = clock or SystemClock()
        self._rng = (rng or random.Random()).random
        self._wait_for_log = wait_for_log
        self._watcher = watcher or Unwatched()
        self._now_ms = self._clock.now_ms()
        self._spill_bytes, self._elsewhere = spill_bytes, elsewhere
        self._inbox = Inbox()
        self._filled = asyncio.Event()
        self._polls = LongPolls(self._clock, self._put, self._tell)
        self._timer = Timer(self._clock, self._tick)
        self._appending: asyncio.Future[int] | None = None
        self._begun_count = self._written_count = 0
        self._closed: FloError | None = None
        self._failed = False
        self._answers_queries = False
        self._loop: asyncio.Task[None] | None = None
        self.failed = asyncio.Event()
        """Set when it can write no more."""
        self._begin_with(state)

    def _begin_with(self, state: State) -> None:
        """All that is known besides the log, as of this state."""
        self.state = state
        self.volatile = VolatileState(self._now_ms, state.position)
        self._batch = CommitBatch()
        self._requests = KeyedRequests(state, self.volatile)
        log, written, spill_bytes = self.log, self.written, self._spill_bytes
        self._prefetch = prefetch = Prefetch(state, log, self._put, written, self._elsewhere)
        self._filler = Filler(log, self._amend, self._ask_again, written, spill_bytes)
        self._context = Context(
            self._now_ms,
            self._rng,
            self.volatile,
            Found(prefetch.recent, {}),
            prefetch.records,
            spill_bytes,
        )

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
        self._answers_queries = False
        self._timer.cancel()
        if self._loop is not None:
            await self._prefetch.finish()
            self._filled.set()
            await self._loop
            self._loop = None
        self._refuse_everyone(stopping)
        await self._prefetch.finish()
        await self._filler.finish()

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
        *,
        is_early: bool = False,
    ) -> Submission:
        """Hand in commands, or one query; `done` is called with an answer for each.

        Early answers to commands come before they are durable. They are for a worker inside the
        server, which tells nobody and dies with what was not written; whatever it submits next
        comes later in the log. Commands with keys are carried out once, however often they come.
        """
        submission = Submission(messages, done, caller, keys, is_early=is_early)
        is_answered = self._answers_queries and type(messages[0]) in QUERIES
        if self._closed is not None and not is_answered:
            submission.refuse(self._closed)
        else:
            self._put(submission)
        return submission

    async def restore(self, state: State) -> None:
        """After a failure, answer queries again, of the state that the log holds."""
        assert self._failed
        if self._loop is not None:
            await self._loop
        await self._prefetch.finish()
        await self._filler.finish()
        self._begin_with(state)
        self._begun_count = self._written_count
        self._failed, self._answers_queries = False, True
        self._loop = asyncio.create_task(self._run(), name="shard")

    def resume(self) -> None:
        """Take commands again: the log can be written."""
        assert self._answers_queries
        self._closed, self._answers_queries = None, False
        self.failed.clear()
        self._timer.set(self.state.due.next_at_ms())

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message:
        """Submit one message and wait for its answer; a refusal is raised."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answers: list[Answer]) -> None:
            if not future.done():  # the asker may be cancelled as its answer comes
                future.set_result(answers[0])

        submission = self.submit([message], done, caller, keys)
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
        while self._inbox.weight or self._closed is None or self._answers_queries:
            await self._filled.wait()
            if self._failed:
                break
            try:
                self._take_in()
            except Exception as error:
                self.fail(error)
            if self._inbox.weight:
                await asyncio.sleep(0)  # whoever sends something now may go before what waits
        while self._appending is not None:
            await asyncio.wait({self._appending})

    def _put(self, submission: Submission) -> None:
        if self._failed and self._closed is not None:
            submission.refuse(self._closed)
        else:
            self._inbox.put(submission)
            if self._inbox.has_one_for(self._batch):
                self._filled.set()

    def _take_in(self) -> None:
        """Decide some of what has been handed in, and no more than about a batch."""
        self._look_at_the_clock()
        count, inbox, batch = 0, self._inbox, self._batch
        taken: list[Submission] = []
        while count < MESSAGES_AT_ONCE and inbox.has_one_for(batch):
            submission = inbox.pop()
            count += len(submission.messages)
            batch.take(submission)
            taken.append(submission)
        for submission in taken:
            self._admit(submission, batch)
        if self._appending is None or not (self._wait_for_log or batch.events):
            self._commit()
        if not inbox.has_one_for(self._batch):
            self._filled.clear()

    def _commit(self) -> None:
        """Close the batch: write what was decided, and then hand out the answers."""
        batch = self._batch
        self._serve(batch)
        self._answer_queries(batch)
        self._requests.flush(batch.note)
        batch.close()
        self._batch = CommitBatch()
        if batch.events and not self._append(batch):
            return
        if not batch.events or not self._wait_for_log:
            batch.deliver(self._filler.fill)
        for submission in batch.unready:
            self._prefetch.fetch(submission, self._context)
        if not self._answers_queries:
            self._timer.set(self.state.due.next_at_ms())

    def _look_at_the_clock(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms > self._now_ms:
            self._now_ms = now_ms
            self._context = replace(self._context, now_ms=now_ms)

    def _append(self, batch: CommitBatch) -> bool:
        """Begin to write it, or write it; whether that has not failed yet."""
        started = asyncio.get_running_loop().time()
        try:
            append = self.log.append(
                batch.events,
                list(batch.archived.values()),
                self._now_ms,
                removed=batch.removed,
                chunks=batch.chunks.take(),
                payloads=batch.payloads,
                payloads_removed=batch.payloads_removed,
                here=batch.is_small and self._wait_for_log,
            )
        except Exception as error:
            self.fail(error, batch)
            return False
        self._begun_count += 1
        self._appending = asyncio.ensure_future(append)
        if self._appending.done():  # it was written here and now
            self._appended(batch, started, self._appending)
        else:
            self._appending.add_done_callback(partial(self._appended, batch, started))
        return not self._failed

    def _appended(self, batch: CommitBatch, started: float, append: asyncio.Future[int]) -> None:
        self._appending = None
        if self._inbox:
            self._filled.set()
        if append.cancelled():
            return
        error = append.exception()
        if error is not None:
            self.fail(error, batch)
            return
        self._written_count += 1
        took = asyncio.get_running_loop().time() - started
        self._watcher.committed(batch.events, len(batch.archived), took)
        if self._wait_for_log:
            batch.deliver(self._filler.fill)
        try:
            if not (self._batch.is_empty or self._failed):
                self._look_at_the_clock()
                self._commit()
        except Exception as failure:
            self.fail(failure)

    def fail(self, error: BaseException, batch: CommitBatch | None = None) -> None:
        """The state is ahead of the log for good: nothing more may be said of it."""
        _logger.critical("shard_failed", error=str(error), exc_info=error)
        code = error.code if isinstance(error, FloError) else "log_failed"
        told = {RETRY_AFTER: RETRY_AFTER_MS}
        failed = Unavailable(f"the server can write no more: {error}", code=code, details=told)
        self._closed, self._failed = failed, True
        self._timer.cancel()
        for submission in (*(batch.everyone() if batch else ()), *self._batch.everyone()):
            submission.refuse(failed)
        self._refuse_everyone(failed)
        self._filled.set()
        self.failed.set()

    def _admit(self, submission: Submission, batch: CommitBatch) -> None:
        first = submission.messages[0]
        if type(first) in QUERIES:
            batch.queries.append(submission)
        elif type(first) not in LONG_POLLS:
            self._execute_all(submission, batch)
            if submission.is_early:
                self._serve(batch)
        elif submission.is_open:  # else whoever asked would never hear of what it got
            self._serve(batch)  # who has waited comes before who comes now
            if (known := self._requests.known_poll(first, submission.keys)) is not None:
                batch.answer(submission, [known])
            else:
                self._poll(submission, first, batch)

    def _execute_all(self, submission: Submission, batch: CommitBatch) -> None:
        context = self._context_of(submission)
        if not self._prefetch.is_ready(submission, context):
            batch.unready.append(submission)
            return
        if len(submission.messages) > 1:
            context = self._context_of(submission)
        if submission.keys is not None:
            execute = partial(self._execute, submission.caller, context, batch)
            answers = self._requests.execute_all(
                submission.messages, submission.keys, execute, batch.note, self._now_ms
            )
        else:
            caller = submission.caller
            answers = [
                self._execute(caller, context, batch, one).reply for one in submission.messages
            ]
        batch.answer(submission, answers)

    def _execute(
        self, caller: Caller, context: Context, batch: CommitBatch, message: Message
    ) -> Decision:
        note, now_ms = None, self._now_ms
        if (batch.caller is not caller and batch.caller != caller) or batch.caller_at_ms != now_ms:
            note = note_of(self.state, caller, now_ms)
            context = replace(context, begins=note)
        try:
            decision = execute(self.state, message, context)
        except FloError as refusal:
            self._watcher.refused(refusal.code)
            if isinstance(refusal, Unexpected):
                _logger.exception("rule_broken", message=type(message).__name__)
            return Decision(refusal)
        if isinstance(decision.reply, FloError):
            self._watcher.refused(decision.reply.code)
        if not decision.events:
            return decision
        batch.add(decision.events, message, caller, note)
        for row in decision.archived:
            address = address_of(row)
            self._prefetch.recent[address] = row
            batch.archived[address] = row
        for chunk in decision.chunks:
            self._prefetch.records.appended(chunk)
            batch.chunks.add(chunk)
        if decision.beside is not NOTHING_BESIDE:
            batch.take_beside(decision.beside)
            self._filler.recent.add_all(decision.beside.payloads)
            self._prefetch.recent.remove_all(decision.beside.removed)
        return decision

    def _serve(self, batch: CommitBatch) -> None:
        """What has just appeared goes to the commands that wait for it, in the same append."""
        for turn in COMMAND_TURNS if batch.events else ():
            while events := batch.not_offered(turn, self._polls.somebody_waits(turn)):
                for submission, message in self._polls.offers(turn, events, self.state):
                    if message is not None:
                        self._poll(submission, message, batch)
                    elif submission.empty_reply is not None:
                        submission.unpark()
                        batch.answered.append((submission, [submission.empty_reply]))

    def _poll(self, submission: Submission, message: Message, batch: CommitBatch) -> None:
        """Execute a command that may wait; one that moves on without finding anything, again."""
        poll = LONG_POLLS[type(message)]
        context = self._context_of(submission)
        while True:
            if self._prefetch.missing((message,), context):
                submission.unpark()
                batch.unready.append(submission)
                return
            events_before = len(batch.events)
            decision = self._execute(submission.caller, context, batch, message)
            reply = decision.reply
            is_empty = not isinstance(reply, FloError) and poll.is_empty(self.state, message, reply)
            if not is_empty or len(batch.events) == events_before:
                break
        if is_empty and not submission.is_parked and self._may_wait(submission):
            self._polls.park(submission, poll, reply, self._now_ms, self.state)
        elif is_empty and submission.is_parked:
            self._polls.stay(submission, poll, self._now_ms, self.state)
        if is_empty and submission.is_parked:
            self._polls.wake_at(submission, poll.again_at_ms(self.state, message, context))
        else:
            submission.unpark()
            keys = submission.keys
            self._requests.note_poll(
                submission.messages[0], keys, decision, batch.note, self._now_ms
            )
            batch.tell(submission, reply)

    def _may_wait(self, submission: Submission) -> bool:
        return self._polls.may_wait(submission, submission.messages[0], self._now_ms)

    def _tell(self, submission: Submission, reply: Answer) -> None:
        """Once all that it was made of is durable."""
        if self._appending is None:
            submission.answer([reply])
        else:
            self._batch.answered.append((submission, [reply]))

    def _answer_queries(self, batch: CommitBatch) -> None:
        """Those that wait for what has happened now, and those that came with this batch."""
        for submission, message in self._polls.news(batch.events, self.state):
            submission.unpark()
            self._answer(submission, message, batch)
        for submission in batch.queries:
            self._answer(submission, submission.messages[0], batch)

    def _answer(self, submission: Submission, message: Message, batch: CommitBatch) -> None:
        poll = LONG_POLLS.get(type(message))
        if poll is not None and not self._may_wait(submission):
            poll = None
        try:
            if poll is not None and poll.is_pending(self.state, message):
                self._polls.park(submission, poll, None, self._now_ms, self.state)
                return
            context = self._context_of(submission)
            if self._prefetch.missing((message,), context):
                batch.unready.append(submission)
                return
            reply = query(self.state, message, context)
        except FloError as refusal:
            batch.answered.append((submission, [refusal]))
            return
        if poll is not None and poll.is_empty(self.state, message, reply):
            submission.messages = [poll.resumed(submission.messages[0], reply)]
            self._polls.park(submission, poll, reply, self._now_ms, self.state)
        else:
            batch.tell(submission, reply)

    def _ask_again(self, submission: Submission) -> None:
        if self._closed is not None:
            submission.refuse(self._closed)
        else:
            self._put(submission)

    def _amend(self, commands: Sequence[Message]) -> None:
        self.submit(commands, lambda answers: None)

    def _context_of(self, submission: Submission) -> Context:
        return self._prefetch.context_of(submission, self._context)

    def _tick(self) -> None:
        def ticked(answers: list[Answer]) -> None:
            if isinstance(answers[0], Ticked) and answers[0].more:
                self._tick()

        self.submit([Tick()], ticked, TIMER)

    def _refuse_everyone(self, error: FloError) -> None:
        inbox, self._inbox = self._inbox, Inbox()
        for submission in (*inbox, *self._polls.everyone(), *self._prefetch.everyone()):
            submission.refuse(error)
