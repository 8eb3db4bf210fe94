"""Which shard a command belongs to, and what must be found out before it goes there.

An action that comes with a WebAssembly module is checked first: that takes a compiler and a while,
and neither belongs into a shard.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeGuard

from flo.model.actions import DeleteAction, RegisterAction
from flo.model.base import Word
from flo.model.errors import FloError, Invalid, Unexpected
from flo.model.ids import Namespace
from flo.model.namespaces import DeleteNamespace
from flo.shard.shard import Shard
from flo.shard.submission import Answer, Done, Submission


class Guests(Protocol):
    """Performs the actions that have a module."""

    async def checked(self, command: RegisterAction) -> RegisterAction: ...

    def serve(self, namespace: Namespace) -> None: ...


class NoGuests:
    """A server that runs no modules."""

    async def checked(self, command: RegisterAction) -> RegisterAction:
        raise Invalid("this server runs no WebAssembly modules", code="wasm_unavailable")

    def serve(self, namespace: Namespace) -> None:
        pass


NO_GUESTS = NoGuests()
_NOTICED = (RegisterAction, DeleteAction, DeleteNamespace)


class Router:
    """The way in for every door. There is one shard yet; a namespace always lives on one."""

    def __init__(self, shard: Shard, guests: Guests = NO_GUESTS) -> None:
        self._shard = shard
        self._guests = guests
        self._checking: dict[asyncio.Task[None], None] = {}

    def submit(self, words: Sequence[Word], done: Done) -> Submission:
        first = words[0]
        if not isinstance(first, _NOTICED):
            return self._shard.submit(words, done)
        submission = Submission(words, done)
        if _has_a_module(first):
            task = asyncio.create_task(self._check(submission, first))
            self._checking[task] = None
            task.add_done_callback(self._checking.pop)
        else:
            self._shard.submit(words, partial(self._answer, submission, first))
        return submission

    async def ask(self, word: Word) -> Word:
        if _has_a_module(word):
            word = await self._guests.checked(word)
        reply = await self._shard.ask(word)
        self._notice(word)
        return reply

    async def _check(self, submission: Submission, command: RegisterAction) -> None:
        try:
            reply = await self.ask(command)
        except FloError as refusal:
            submission.refuse(refusal)
        except Exception as error:  # our mistake; whoever asked must not wait for ever
            submission.refuse(Unexpected(f"the module could not be checked: {error!r}"))
        else:
            submission.answer([reply])

    def _answer(self, submission: Submission, word: Word, answers: list[Answer]) -> None:
        self._notice(word)
        submission.answer(answers)

    def _notice(self, word: Word) -> None:
        """Actions have come or gone: their runs are to be served, or no longer."""
        match word:
            case RegisterAction(namespace=namespace) | DeleteAction(namespace=namespace):
                self._guests.serve(namespace)
            case DeleteNamespace(name=namespace):
                self._guests.serve(namespace)
            case _:
                pass


def _has_a_module(word: Word) -> TypeGuard[RegisterAction]:
    """Also one that the server has already is checked: against another entrypoint and limit."""
    return isinstance(word, RegisterAction) and (
        word.wasm_module is not None or word.wasm_digest is not None
    )
