"""What has been handed to the shard and waits for its answers."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import structlog

from flo.engine.long_poll import Subject
from flo.engine.machine import PAYLOAD_LENGTHS
from flo.model.base import Message
from flo.model.errors import FloError
from flo.model.storage.caller import SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.shard.cache.records import NOTHING_FETCHED, Fetched
from flo.shard.clock import ScheduledCall

Answer: TypeAlias = Message | FloError
_logger = structlog.get_logger("flo.shard")

WEIGHT_LENGTH = 2 * 1024
"""So many bytes of payload keep others waiting as long as a message does."""

Done: TypeAlias = Callable[[list[Answer]], None]


class Submission:
    """Some commands, or one query; `done` is called once, with an answer for each."""

    fetched: Mapping[Hashable, Any] = {}
    """What was looked up for it, by the keys of the lookups."""
    fetched_at = 0
    """How many keyed runs had finished when the archive was last asked."""
    records: Fetched = NOTHING_FETCHED
    """The records that were fetched for it last."""
    asked_count = 0
    """How often it was asked again, because the store did not have what its reply lacked."""
    until_ms: int | None = None
    """How long it may wait, once it has begun to."""
    empty_reply: Answer | None = None
    """What it is told if its wait ends; None if it is to be asked once more."""
    alike: Hashable = None
    """What it has in common with those it waits in line with."""
    also: Sequence[Subject] = ()
    """What it waits for only as things stand."""
    _alarm: ScheduledCall | None = None
    _leave: Callable[[], None] | None = None

    def __init__(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
        *,
        is_early: bool = False,
    ) -> None:
        self.messages = messages
        self.length = _payload_length(messages)
        """How many bytes of payload its events will carry."""
        self.weight = len(messages) + self.length // WEIGHT_LENGTH
        """How much work it is."""
        self.caller = caller
        self.keys = keys
        """What tells its messages from all others, so that none is carried out twice."""
        self.is_early = is_early
        """Whether its commands are answered before that is durable: it is gone with the process."""
        self._done: Done | None = done

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


def _payload_length(messages: Sequence[Message]) -> int:
    """How many bytes of payload the events of these messages will carry."""
    length = 0
    for message in messages:
        if (length_of := PAYLOAD_LENGTHS.get(type(message))) is not None:
            length += length_of(message)
    return length
