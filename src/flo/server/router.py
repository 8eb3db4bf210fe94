"""Which shard a command belongs to, and what must be found out before it goes there.

An action that comes with a WebAssembly module or a long schema is checked first, and the text of a
workflow is read first: these may take a while, and nobody else is to wait for that. The WASM worker
and the triggers are told when actions or workflows have changed.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeGuard

from flo.engine.actions.rules import check_schemas
from flo.engine.actions.schemas import takes_a_while
from flo.engine.workflows.definitions import reading_of
from flo.model.actions import DeleteAction, RegisterAction
from flo.model.base import Message
from flo.model.errors import FloError, Invalid, Unexpected
from flo.model.ids import Namespace
from flo.model.namespaces import DeleteNamespace
from flo.model.storage.caller import SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.model.workflows import (
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    ValidateWorkflow,
)
from flo.server.audit.shard import AuditedShard
from flo.shard.loop import Shard
from flo.shard.submission import Answer, Done, Submission

OF_ACTIONS = (RegisterAction, DeleteAction)
OF_WORKFLOWS = (CreateWorkflow, DeleteWorkflow, EnableWorkflow, DisableWorkflow)

_NOTICED = (*OF_ACTIONS, *OF_WORKFLOWS, ValidateWorkflow, DeleteNamespace)


class ShardHandler(Protocol):
    """Does something for what is in a namespace, and is told when that has changed."""

    def serve(self, namespace: Namespace) -> None: ...


class WasmHost(ShardHandler, Protocol):
    """Performs the actions that have a module."""

    async def checked(self, command: RegisterAction) -> RegisterAction: ...


class NoWasm:
    """A server that runs no modules."""

    async def checked(self, command: RegisterAction) -> RegisterAction:
        raise Invalid("this server runs no WebAssembly modules", code="wasm_unavailable")

    def serve(self, namespace: Namespace) -> None:
        pass


NO_WASM = NoWasm()


class Router:
    """The way in for every door. There is one shard yet; a namespace always lives on one."""

    def __init__(
        self,
        shard: Shard | AuditedShard,
        wasm: WasmHost = NO_WASM,
        triggers: ShardHandler = NO_WASM,
    ) -> None:
        self._shard = shard
        self._wasm = wasm
        self._triggers = triggers
        self._checking: dict[asyncio.Task[None], None] = {}

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission:
        first = messages[0]
        if not isinstance(first, _NOTICED):
            return self._shard.submit(messages, done, caller, keys)
        submission = Submission(messages, done, caller, keys)
        if _takes_a_while(first):
            task = asyncio.create_task(self._check(submission, first))
            self._checking[task] = None
            task.add_done_callback(self._checking.pop)
        else:
            self._shard.submit(messages, partial(self._answer, submission, first), caller, keys)
        return submission

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message:
        if _has_a_module(message):
            message = await self._wasm.checked(message)
        elif isinstance(message, CreateWorkflow | ValidateWorkflow):
            await asyncio.to_thread(reading_of, message.text)
        elif _has_a_long_schema(message):
            await asyncio.to_thread(check_schemas, message)
        reply = await self._shard.ask(message, caller, keys)
        self._notice(message)
        return reply

    async def _check(self, submission: Submission, message: Message) -> None:
        try:
            reply = await self.ask(message, submission.caller, submission.keys)
        except FloError as refusal:
            submission.refuse(refusal)
        except Exception as error:  # our mistake; whoever asked must not wait for ever
            submission.refuse(Unexpected(f"it could not be checked: {error!r}"))
        else:
            submission.answer([reply])

    def _answer(self, submission: Submission, message: Message, answers: list[Answer]) -> None:
        self._notice(message)
        submission.answer(answers)

    def _notice(self, message: Message) -> None:
        """Actions or workflows have come or gone: they are to be served, or no longer."""
        if isinstance(message, DeleteNamespace):
            self._wasm.serve(message.name)
            self._triggers.serve(message.name)
        elif isinstance(message, OF_ACTIONS):
            self._wasm.serve(message.namespace)
        elif isinstance(message, OF_WORKFLOWS):
            self._triggers.serve(message.namespace)


def _takes_a_while(message: Message) -> bool:
    return (
        _has_a_module(message)
        or _has_a_long_schema(message)
        or isinstance(message, CreateWorkflow | ValidateWorkflow)
    )


def _has_a_long_schema(message: Message) -> TypeGuard[RegisterAction]:
    return isinstance(message, RegisterAction) and (
        takes_a_while(message.input_schema) or takes_a_while(message.output_schema)
    )


def _has_a_module(message: Message) -> TypeGuard[RegisterAction]:
    """Also one that the server has already is checked: against another entrypoint and limit."""
    return isinstance(message, RegisterAction) and (
        message.wasm_module is not None or message.wasm_digest is not None
    )
