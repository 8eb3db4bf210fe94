"""A server that hands out the tasks it was given, and remembers the reports."""

import asyncio
from collections.abc import Sequence
from typing import Any

from client.fake import FakeServer
from flo.model.actions import GetAction, RegisterAction, Registered
from flo.model.base import Word
from flo.model.errors import FloError, NotFound
from flo.model.runs import (
    Accepted,
    Assigned,
    Claim,
    Complete,
    Fail,
    Nothing,
    RunStatus,
    Task,
    Touch,
    Touched,
)
from flo.model.workers import (
    AwaitNews,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    News,
    RegisterWorker,
    WorkerKnown,
    WorkerStatus,
)
from flo.wire.codec import Answer
from flo.wire.opcodes import Operation


def task(number: int = 1, action: str = "a", payload: bytes = b"", attempt: int = 1) -> Task:
    return Task(
        task_id=f"{action}-{number}",
        task_type=action,
        payload=payload,
        created_at_ms=1_790_000_000_000,
        attempt=attempt,
        lease_expires_at_ms=1_790_000_030_000,
    )


class Foreman(FakeServer):
    """`answers` overrides the answer to one kind of word."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.tasks: list[Task] = []
        self.answers: dict[type[Word], Answer] = {}
        self.is_draining = False
        self.news_count = 0

    def heard(self, kind: type[Word]) -> list[Any]:
        """Every word of this kind, in the order in which they came."""
        return [word for _, words in self.requests for word in words if type(word) is kind]

    def assign(self, *tasks: Task) -> None:
        """Hand out tasks to whoever waits."""
        self.tasks += tasks
        self._answer_parked_claim()

    def tell(self, *cancelled: str, draining: bool = False) -> None:
        """News for whoever listens."""
        self.news_count += 1
        self.is_draining = self.is_draining or draining
        index = self._parked(AwaitNews)
        assert index is not None, "nobody listens"
        self.reply(
            [News(last=self.news_count, cancelled=list(cancelled), draining=draining)], index
        )

    def _parked(self, kind: type[Word]) -> int | None:
        for index, request in enumerate(self.ends[-1].open):
            if isinstance(request.words, list) and isinstance(request.words[0], kind):
                return index
        return None

    def _answer_parked_claim(self) -> None:
        index = self._parked(Claim)
        if index is not None:
            words = self.ends[-1].open[index].words
            assert isinstance(words, list)
            assert isinstance(words[0], Claim)
            self.reply([self._assigned(words[0])], index)

    def _answer_parked_news(self) -> None:
        index = self._parked(AwaitNews)
        if index is not None:
            self.reply([News(last=self.news_count, draining=self.is_draining)], index)

    def _answer(
        self, operation: Operation, words: Sequence[Word]
    ) -> list[Answer] | FloError | None:
        answers = [self._answer_one(word) for word in words]
        return None if None in answers else [one for one in answers if one is not None]

    def _answer_one(self, word: Word) -> Answer | None:
        if type(word) in self.answers:
            return self.answers[type(word)]
        match word:
            case Claim() | Complete() | Fail() | Touch():
                return self._answer_about_tasks(word)
            case AwaitNews():
                return self._answer_about_news(word)
            case GetAction(name=name):
                return NotFound(f"action {name!r} does not exist", code="action_not_found")
            case RegisterAction(name=name):
                return Registered(name=name, version=1)
            case DrainWorker(worker_id=worker_id):
                self.is_draining = True
                self.news_count += 1
                self._answer_parked_claim()
                self._answer_parked_news()
                return WorkerKnown(worker_id=worker_id, status=WorkerStatus.DRAINING)
            case RegisterWorker(worker_id=worker_id) | Heartbeat(worker_id=worker_id):
                return WorkerKnown(worker_id=worker_id, status=self._status())
            case DeregisterWorker():
                return Nothing()
            case _:
                raise AssertionError(f"nobody expected {word!r}")

    def _answer_about_tasks(self, word: Claim | Complete | Fail | Touch) -> Answer | None:
        match word:
            case Claim(block_ms=block_ms) if not self.tasks and not self.is_draining:
                loop = asyncio.get_running_loop()
                loop.call_later(block_ms / 1_000, self._answer_parked_claim)
                return None
            case Claim():
                return self._assigned(word)
            case Complete(run_id=run_id):
                return Accepted(run_id=run_id, status=RunStatus.COMPLETED)
            case Fail(run_id=run_id):
                return Accepted(run_id=run_id, status=RunStatus.FAILED)
            case Touch(run_id=run_id):
                return Touched(run_id=run_id, lease_expires_at_ms=0)

    def _answer_about_news(self, question: AwaitNews) -> Answer | None:
        if question.after < self.news_count:
            return News(last=self.news_count, draining=self.is_draining)
        loop = asyncio.get_running_loop()
        loop.call_later(question.block_ms / 1_000, self._answer_parked_news)
        return None

    def _assigned(self, claim: Claim) -> Assigned:
        tasks, self.tasks = self.tasks[: claim.max_tasks], self.tasks[claim.max_tasks :]
        return Assigned(tasks=tasks, draining=self.is_draining and not tasks)

    def _status(self) -> WorkerStatus:
        return WorkerStatus.DRAINING if self.is_draining else WorkerStatus.IDLE
