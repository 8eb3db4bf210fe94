"""What has been handed to the shard and waits for its answers."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import structlog

from flo.model.base import Message
from flo.model.errors import FloError
from flo.model.storage.caller import SERVER, Caller
from flo.shard.clock import ScheduledCall
from flo.shard.record_cache import Fetched

Answer: TypeAlias = Message | FloError
_logger = structlog.get_logger("flo.shard")

Done: TypeAlias = Callable[[list[Answer]], None]


class Submission:
    """Some commands, or one query; `done` is called once, with an answer for each."""

    __slots__ = (
        "_alarm",
        "_done",
        "_leave",
        "alike",
        "caller",
        "empty_reply",
        "fetched",
        "fetched_at",
        "is_early",
        "messages",
        "records",
        "until_ms",
    )

    def __init__(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        *,
        is_early: bool = False,
    ) -> None:
        self.messages = messages
        self.caller = caller
        self.is_early = is_early
        """Whether its commands are answered before that is durable: it is gone with the process."""
        self.fetched: Mapping[Hashable, Any] = {}
        """What was looked up for it, by the keys of the lookups."""
        self.fetched_at = 0
        """How many keyed runs had finished when the archive was last asked."""
        self.records: Fetched = {}
        """The records that were fetched for it last."""
        self.until_ms: int | None = None
        """How long it may wait, once it has begun to."""
        self.empty_reply: Answer | None = None
        """What it is told if its wait ends; None if it is to be asked once more."""
        self.alike: Hashable = None
        """What it has in common with those it waits in line with."""
        self._done: Done | None = done
        self._alarm: ScheduledCall | None = None
        self._leave: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for the answers."""
        return self._done is not None

    @property
    def is_parked(self) -> bool:
        """Whether it waits as a long poll."""
        return self._leave is not None

    def park(self, alarm: ScheduledCall, leave: Callable[[], None]) -> None:
        """It waits as a long poll until the alarm rings; `leave` ends that."""
        self._alarm, self._leave = alarm, leave

    def ring(self, alarm: ScheduledCall) -> None:
        """Another alarm rings, and not the one before."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = alarm

    def unpark(self) -> None:
        if self._alarm is not None and self._leave is not None:
            self._alarm.cancel()
            self._leave()
            self._alarm = self._leave = None

    def answer(self, answers: list[Answer]) -> None:
        self.unpark()
        done, self._done = self._done, None
        if done is not None:  # the asker may have gone; the events stand
            try:
                done(answers)
            except Exception:  # a door's mistake is no reason to stop the shard
                _logger.exception("answer_lost")

    def refuse(self, error: FloError) -> None:
        self.answer([error] * len(self.messages))

    def withdraw(self) -> None:
        """Nobody waits for the answers any more."""
        self.unpark()
        self._done = None
