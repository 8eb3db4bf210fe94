"""A server that hands out the tasks it was given, and remembers the reports."""

import asyncio
from collections.abc import Sequence
from typing import Any

from client.fake import FakeServer
from flo.model.actions import GetAction, RegisterAction, Registered
from flo.model.base import Message, Nothing
from flo.model.errors import FloError, NotFound
from flo.model.runs import (
    Accepted,
    Assigned,
    Claim,
    Complete,
    Fail,
    RunStatus,
    Task,
    Touch,
    Touched,
)
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    Notifications,
    RegisterWorker,
    Resumed,
    ResumeWorker,
    WorkerKnown,
    WorkerStatus,
)
from flo.wire.codec import Answer
from flo.wire.opcodes import Form


def task(
    number: int = 1,
    action: str = "a",
    payload: bytes = b"",
    attempt: int = 1,
    timeout_ms: int = 0,
) -> Task:
    return Task(
        task_id=f"{action}-{number}",
        task_type=action,
        payload=payload,
        created_at_ms=1_790_000_000_000,
        attempt=attempt,
        lease_expires_at_ms=1_790_000_030_000,
        timeout_ms=timeout_ms,
    )


class TaskServer(FakeServer):
    """`answers` overrides the answer to one type of message."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.tasks: list[Task] = []
        self.answers: dict[type[Message], Answer] = {}
        self.is_draining = False
        self.notifications_count = 0

    def heard(self, kind: type[Message]) -> list[Any]:
        """Every message of this type, in the order in which they came."""
        return [
            message
            for _, messages in self.requests
            for message in messages
            if type(message) is kind
        ]

    def assign(self, *tasks: Task) -> None:
        """Hand out tasks to whoever waits."""
        self.tasks += tasks
        self._answer_parked_claim()

    def tell(self, *cancelled: str, draining: bool = False) -> None:
        """Notifications for the worker that waits for them."""
        self.notifications_count += 1
        self.is_draining = self.is_draining or draining
        index = self._parked(AwaitNotifications)
        assert index is not None, "nobody waits for notifications"
        self.reply(
            [
                Notifications(
                    last=self.notifications_count, cancelled=list(cancelled), draining=draining
                )
            ],
            index,
        )

    def _parked(self, kind: type[Message]) -> int | None:
        for index, request in enumerate(self.ends[-1].open):
            if isinstance(request.messages, list) and isinstance(request.messages[0], kind):
                return index
        return None

    def _answer_parked_claim(self) -> None:
        index = self._parked(Claim)
        if index is not None:
            messages = self.ends[-1].open[index].messages
            assert isinstance(messages, list)
            assert isinstance(messages[0], Claim)
            self.reply([self._assigned(messages[0])], index)

    def _answer_parked_notifications(self) -> None:
        index = self._parked(AwaitNotifications)
        if index is not None:
            self.reply(
                [Notifications(last=self.notifications_count, draining=self.is_draining)], index
            )

    def _answer(
        self, operation: Form, messages: Sequence[Message]
    ) -> list[Answer] | FloError | None:
        answers = [self._answer_one(message) for message in messages]
        return None if None in answers else [one for one in answers if one is not None]

    def _answer_one(self, message: Message) -> Answer | None:
        if type(message) in self.answers:
            return self.answers[type(message)]
        match message:
            case Claim() | Complete() | Fail() | Touch():
                return self._answer_about_tasks(message)
            case AwaitNotifications():
                return self._answer_about_notifications(message)
            case GetAction(name=name):
                return NotFound(f"action {name!r} does not exist", code="action_not_found")
            case RegisterAction(name=name):
                return Registered(name=name, version=1)
            case DrainWorker(worker_id=worker_id):
                self.is_draining = True
                self.notifications_count += 1
                self._answer_parked_claim()
                self._answer_parked_notifications()
                return WorkerKnown(worker_id=worker_id, status=WorkerStatus.DRAINING)
            case RegisterWorker(worker_id=worker_id) | Heartbeat(worker_id=worker_id):
                return WorkerKnown(worker_id=worker_id, status=self._status())
            case ResumeWorker(worker_id=worker_id):
                return Resumed(worker_id=worker_id, status=self._status())
            case DeregisterWorker():
                return Nothing()
            case _:
                raise AssertionError(f"nobody expected {message!r}")

    def _answer_about_tasks(self, message: Claim | Complete | Fail | Touch) -> Answer | None:
        match message:
            case Claim(block_ms=block_ms) if not self.tasks and not self.is_draining:
                loop = asyncio.get_running_loop()
                loop.call_later(block_ms / 1_000, self._answer_parked_claim)
                return None
            case Claim():
                return self._assigned(message)
            case Complete(run_id=run_id):
                return Accepted(run_id=run_id, status=RunStatus.COMPLETED)
            case Fail(run_id=run_id):
                return Accepted(run_id=run_id, status=RunStatus.FAILED)
            case Touch(run_id=run_id):
                return Touched(run_id=run_id, lease_expires_at_ms=0)

    def _answer_about_notifications(self, query: AwaitNotifications) -> Answer | None:
        if query.after < self.notifications_count:
            return Notifications(last=self.notifications_count, draining=self.is_draining)
        loop = asyncio.get_running_loop()
        loop.call_later(query.block_ms / 1_000, self._answer_parked_notifications)
        return None

    def _assigned(self, claim: Claim) -> Assigned:
        tasks, self.tasks = self.tasks[: claim.max_tasks], self.tasks[claim.max_tasks :]
        return Assigned(tasks=tasks, draining=self.is_draining and not tasks)

    def _status(self) -> WorkerStatus:
        return WorkerStatus.DRAINING if self.is_draining else WorkerStatus.IDLE
