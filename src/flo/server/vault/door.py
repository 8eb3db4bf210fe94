"""What every message passes on its way to the router where there is a vault, and every answer.

Who has no secrets pays a look at a set for each request.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from flo.model.base import Message
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.runs import Claim
from flo.model.safety.secrets import RotateKey, SetSecret
from flo.model.storage.caller import SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.server.vault.vault import OF_WORKERS, Vault
from flo.shard.submission import Answer, Done, Submission

_LOOKED_AT = OF_WORKERS | {SetSecret, RotateKey}


class MessageHandler(Protocol):
    """Takes messages, and answers them: a router."""

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission: ...

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message: ...


class VaultDoor:
    def __init__(self, inner: MessageHandler, vault: Vault) -> None:
        self._inner = inner
        self._vault = vault

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission:
        first: Any = messages[0]
        if type(first) not in _LOOKED_AT:
            return self._inner.submit(messages, done, caller, keys)
        if isinstance(first, SetSecret | RotateKey):
            try:
                messages = [self._vault.sealed(one) for one in messages]  # type: ignore[arg-type]
            except FloError as refusal:
                refused = Submission(messages, done, caller, keys)
                refused.refuse(refusal)
                return refused
        elif self._vault.has_secrets(first.namespace):
            messages = self._vault.redacted(first.namespace, messages)
            if isinstance(first, Claim):
                done = partial(self._give, first.namespace, done)
        return self._inner.submit(messages, done, caller, keys)

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message:
        if isinstance(message, SetSecret | RotateKey):
            message = self._vault.sealed(message)
        elif type(message) in OF_WORKERS:
            return await self._ask_for_worker(message, caller, keys)
        return await self._inner.ask(message, caller, keys)

    async def _ask_for_worker(
        self, message: Any, caller: Caller, keys: RequestKeys | None
    ) -> Message:
        namespace = message.namespace
        if not self._vault.has_secrets(namespace):
            return await self._inner.ask(message, caller, keys)
        (cleaned,) = self._vault.redacted(namespace, [message])
        reply = await self._inner.ask(cleaned, caller, keys)
        (given,) = self._vault.given(namespace, [reply])
        assert isinstance(given, Message)
        return given

    def _give(self, namespace: Namespace, done: Done, answers: list[Answer]) -> None:
        done(self._vault.given(namespace, answers))
