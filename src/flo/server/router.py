"""Which shard a command belongs to, and what must be found out before it goes there.

An action that comes with a WebAssembly module is checked first, and the text of a workflow is read
first: both may take a while, and nobody else is to wait for that.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

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
from flo.shard.submission import Done, Submission

OF_WORKFLOWS = (CreateWorkflow, DeleteWorkflow, EnableWorkflow, DisableWorkflow)


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
        if _takes_a_while(first):
            submission = Submission(words, done)
            task = asyncio.create_task(self._check(submission, first))
            self._checking[task] = None
            task.add_done_callback(self._checking.pop)
            return submission
        return self._shard.submit(words, done)

    async def ask(self, word: Word) -> Word:
        if isinstance(word, RegisterAction) and word.wasm_module is not None:
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
            submission.refuse(Unexpected(f"the module could not be checked: {error!r}"))
        else:
            submission.answer([reply])

    def _notice(self, word: Word) -> None:
        """Actions or workflows have come or gone: they are to be served, or no longer."""
        if isinstance(word, RegisterAction | DeleteAction):
            self._guests.serve(word.namespace)
        elif isinstance(word, OF_WORKFLOWS):
            self._triggers.serve(word.namespace)
        elif isinstance(word, DeleteNamespace):
            self._triggers.serve(word.name)


def _takes_a_while(word: Word) -> bool:
    """Whether it is not for the shard alone."""
    others = ValidateWorkflow, RegisterAction, DeleteAction, DeleteNamespace
    return isinstance(word, (*OF_WORKFLOWS, *others))
