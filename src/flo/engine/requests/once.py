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


class OpenSession:
    """What a session has had carried out since the last append."""

    __slots__ = ("answers", "newest", "unheard")

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {}
        self.newest = -1
        self.unheard = 0


class KeyedRequests:
    def __init__(self, state: State, volatile: VolatileState) -> None:
        self._state = state
        self._volatile = volatile
        self._open: dict[int, OpenSession] = {}

    def execute_all(
        self,
        messages: Sequence[Message],
        keys: RequestKeys,
        execute: Execute,
        note: Note,
        now_ms: int,
    ) -> list[Answer]:
        """Carry out what was not carried out before; the rest is answered as it was then."""
        if self._are_new(keys):
            return self._execute_new(messages, keys, execute, now_ms)
        answers: list[Answer] = []
        for key, message in zip(keys.of(len(messages)), messages, strict=True):
            answer = self._known(keys, key, message)
            if answer is None:
                decision = execute(message)
                answer = decision.reply
                if isinstance(key, str):
                    self._note_key(key, message, decision, note, now_ms)
                elif key is not None:
                    self._note_number(keys, key, decision, now_ms)
            answers.append(answer)
        return answers

    def _execute_new(
        self, messages: Sequence[Message], keys: RequestKeys, execute: Execute, now_ms: int
    ) -> list[Answer]:
        """The same where it is known that no number has come before: most of all requests."""
        number = keys.keys
        assert isinstance(number, int)
        answers: list[Answer] = []
        for message in messages:
            decision = execute(message)
            answers.append(decision.reply)
            self._note_number(keys, number, decision, now_ms)
            number += 1
        return answers

    def flush(self, note: Note) -> None:
        """Note what was carried out by numbers, in the append of what it led to."""
        if self._open:
            for number, session in self._open.items():
                self._note(numbered_done(number, session.unheard, session.answers), note)
            self._open.clear()

    def _note_number(self, keys: RequestKeys, number: int, decision: Decision, now_ms: int) -> None:
        if decision.events:
            session = self._open.get(keys.session)
            if session is None:
                session = self._open[keys.session] = OpenSession()
            session.answers[number] = decision.reply
            if number > session.newest:
                session.newest = number
            if keys.unheard > session.unheard:
                session.unheard = keys.unheard
        elif decision.observations:
            observe_done(self._volatile, keys, {number: decision.reply}, now_ms)

    def _are_new(self, keys: RequestKeys) -> bool:
        """Whether no request of the session has had these numbers, nor any after them."""
        number = keys.keys
        if not isinstance(number, int):
            return False
        opened = self._open.get(keys.session)
        if opened is not None and number <= opened.newest:
            return False
        session = self._state.requests.sessions.get(keys.session)
        if session is not None and (number <= session.newest or number < session.unheard):
            return False
        return keys.session not in self._volatile.requests.sessions

    def known_poll(self, message: Message, keys: RequestKeys | None) -> Answer | None:
        """What a command that may wait was answered.

        It has no number: if its answer is lost, what it was given is given back.
        """
        if keys is None or not isinstance(key := keys.of(1)[0], str):
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
        if keys is not None and isinstance(key := keys.of(1)[0], str):
            self._note_key(key, message, decision, note, now_ms)

    def _known(self, keys: RequestKeys, key: int | str | None, message: Message) -> Answer | None:
        if key is None:
            return None
        opened = self._open.get(keys.session)
        if opened is not None and isinstance(key, int) and key in opened.answers:
            return opened.answers[key]
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
