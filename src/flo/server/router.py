"""Which shard a command belongs to, and what must be found out before it goes there.

An action that comes with a WebAssembly module is checked first, and the text of a workflow is read
first: both may take a while, and nobody else is to wait for that. What concerns those who work
inside the server is told to them.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeGuard

from flo.core.workflows import reading_of
from flo.model.actions import DeleteAction, RegisterAction
from flo.model.base import Word
from flo.model.errors import FloError, Invalid, Unexpected
from flo.model.ids import Namespace
from flo.model.namespaces import DeleteNamespace
from flo.model.workflows import (
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    ValidateWorkflow,
)
from flo.shard.shard import Shard
from flo.shard.submission import Answer, Done, Submission

OF_ACTIONS = (RegisterAction, DeleteAction)
OF_WORKFLOWS = (CreateWorkflow, DeleteWorkflow, EnableWorkflow, DisableWorkflow)

_NOTICED = (*OF_ACTIONS, *OF_WORKFLOWS, ValidateWorkflow, DeleteNamespace)


class Servant(Protocol):
    """Does something for what is in a namespace, and is told when that has changed."""

    def serve(self, namespace: Namespace) -> None: ...


class Guests(Servant, Protocol):
    """Performs the actions that have a module."""

    async def checked(self, command: RegisterAction) -> RegisterAction: ...


class NoGuests:
    """A server that runs no modules."""

    async def checked(self, command: RegisterAction) -> RegisterAction:
        raise Invalid("this server runs no WebAssembly modules", code="wasm_unavailable")

    def serve(self, namespace: Namespace) -> None:
        pass


NO_GUESTS = NoGuests()


class Router:
    """The way in for every door. There is one shard yet; a namespace always lives on one."""

    def __init__(
        self, shard: Shard, guests: Guests = NO_GUESTS, triggers: Servant = NO_GUESTS
    ) -> None:
        self._shard = shard
        self._guests = guests
        self._triggers = triggers
        self._checking: dict[asyncio.Task[None], None] = {}

    def submit(self, words: Sequence[Word], done: Done) -> Submission:
        first = words[0]
        if not isinstance(first, _NOTICED):
            return self._shard.submit(words, done)
        submission = Submission(words, done)
        if _takes_a_while(first):
            task = asyncio.create_task(self._check(submission, first))
            self._checking[task] = None
            task.add_done_callback(self._checking.pop)
        else:
            self._shard.submit(words, partial(self._answer, submission, first))
        return submission

    async def ask(self, word: Word) -> Word:
        if _has_a_module(word):
            word = await self._guests.checked(word)
        elif isinstance(word, CreateWorkflow | ValidateWorkflow):
            await asyncio.to_thread(reading_of, word.text)
        reply = await self._shard.ask(word)
        self._notice(word)
        return reply

    async def _check(self, submission: Submission, word: Word) -> None:
        try:
            reply = await self.ask(word)
        except FloError as refusal:
            submission.refuse(refusal)
        except Exception as error:  # our mistake; whoever asked must not wait for ever
            submission.refuse(Unexpected(f"it could not be checked: {error!r}"))
        else:
            submission.answer([reply])

    def _answer(self, submission: Submission, word: Word, answers: list[Answer]) -> None:
        self._notice(word)
        submission.answer(answers)

    def _notice(self, word: Word) -> None:
        """Actions or workflows have come or gone: they are to be served, or no longer."""
        if isinstance(word, DeleteNamespace):
            self._guests.serve(word.name)
            self._triggers.serve(word.name)
        elif isinstance(word, OF_ACTIONS):
            self._guests.serve(word.namespace)
        elif isinstance(word, OF_WORKFLOWS):
            self._triggers.serve(word.namespace)


def _takes_a_while(word: Word) -> bool:
    return _has_a_module(word) or isinstance(word, CreateWorkflow | ValidateWorkflow)


def _has_a_module(word: Word) -> TypeGuard[RegisterAction]:
    """Also one that the server has already is checked: against another entrypoint and limit."""
    return isinstance(word, RegisterAction) and (
        word.wasm_module is not None or word.wasm_digest is not None
    )
