"""Requests with keys: each is carried out once, and noted in the append of what it led to.

key known?  ──▸ answered as it was then
            └─▸ executed ──▸ events ──▸ noted in the log
                         └─▸ only observations ──▸ noted in VolatileState
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from flo.engine.decision import Decision
from flo.engine.machine import apply
from flo.engine.requests.replies import Answer
from flo.engine.requests.rules import (
    keyed_done,
    known_answer,
    numbered_done,
    observe_done,
    observe_keyed_done,
)
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.base import Event, Message
from flo.model.storage.request_keys import RequestKeys

Execute: TypeAlias = Callable[[Message], Decision]
Note: TypeAlias = Callable[[Event], None]
"""Takes an event into the append of what a request led to."""


class KeyedRequests:
    def __init__(self, state: State, volatile: VolatileState) -> None:
        self._state = state
        self._volatile = volatile

    def execute_all(
        self,
        messages: Sequence[Message],
        keys: RequestKeys,
        execute: Execute,
        note: Note,
        now_ms: int,
    ) -> list[Answer]:
        """Carry out what was not carried out before; the rest is answered as it was then."""
        answers: list[Answer] = []
        lasting: dict[int, Answer] = {}
        volatile: dict[int, Answer] = {}
        for key, message in zip(keys.keys, messages, strict=True):
            if key is not None and (known := self._known(keys, key, message)) is not None:
                answers.append(known)
                continue
            decision = execute(message)
            answers.append(decision.reply)
            if isinstance(key, str):
                self._note_key(key, message, decision, note, now_ms)
            elif key is not None and decision.events:
                lasting[key] = decision.reply
            elif key is not None and decision.observations:
                volatile[key] = decision.reply
        if lasting:
            self._note(numbered_done(keys, lasting), note)
        if volatile:
            observe_done(self._volatile, keys, volatile, now_ms)
        return answers

    def known_poll(self, message: Message, keys: RequestKeys | None) -> Answer | None:
        """What a command that may wait was answered.

        It has no number: if its answer is lost, what it was given is given back.
        """
        if keys is None or not isinstance(key := keys.keys[0], str):
            return None
        return self._known(keys, key, message)

    def note_poll(
        self,
        message: Message,
        keys: RequestKeys | None,
        decision: Decision,
        note: Note,
        now_ms: int,
    ) -> None:
        """A command that may wait was carried out."""
        if keys is not None and isinstance(key := keys.keys[0], str):
            self._note_key(key, message, decision, note, now_ms)

    def _known(self, keys: RequestKeys, key: int | str, message: Message) -> Answer | None:
        return known_answer(self._state, self._volatile, keys, key, message)

    def _note_key(
        self, key: str, message: Message, decision: Decision, note: Note, now_ms: int
    ) -> None:
        if decision.events:
            self._note(keyed_done(key, message, decision.reply), note)
        elif decision.observations:
            observe_keyed_done(self._volatile, key, message, decision.reply, now_ms)

    def _note(self, event: Event, note: Note) -> None:
        """It goes with what the request led to: both are kept, or neither."""
        apply(self._state, event)
        note(event)
