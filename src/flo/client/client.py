"""Flo: connect, close, and one attribute per noun."""

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Self

import msgspec

from flo.client.actions import Actions
from flo.client.blocks.blocks import Blocks
from flo.client.events import Events
from flo.client.kv import Kv
from flo.client.namespaces import Namespaces
from flo.client.payloads.codec import PayloadCodec
from flo.client.pipelines import Pipelines
from flo.client.plans import Plans
from flo.client.safety.audit import Audit
from flo.client.safety.secrets import Secrets
from flo.client.schedules import Schedules
from flo.client.session.sealed import CodecSession
from flo.client.session.session import Session
from flo.client.session.transport import Connect, tcp
from flo.client.streams import Streams
from flo.client.workers import Workers
from flo.client.workflows import Workflows
from flo.model.declare.operation import Command, Query, R
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.version import VERSION
from flo.wire.opcodes import Ping

ADDRESS_DEFAULT = "127.0.0.1:9000"
TIMEOUT_S_DEFAULT = 30.0


class Flo:
    """An async client.

        async with Flo() as flo:
            invocation = await flo.actions.invoke("send-email", {"to": "alice@example.com"})
            print(await invocation.result())

    The address is the argument, else FLO_ENDPOINT, else 127.0.0.1:9000; the namespace is the
    argument, else FLO_NAMESPACE, else "default". `timeout` is how many seconds a call may take.
    `connect` opens connections in place of TCP; `rng` spreads the reconnects of many clients. A
    client that is not connected connects with its next call. All payloads pass the `codec`, if
    there is one: the server keeps only what it makes of them.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: Namespace | None = None,
        timeout: float = TIMEOUT_S_DEFAULT,
        connect: Connect | None = None,
        rng: Callable[[], float] = random.random,
        codec: PayloadCodec | None = None,
    ) -> None:
        self.address = address or os.environ.get("FLO_ENDPOINT") or ADDRESS_DEFAULT
        self.namespace = namespace or os.environ.get("FLO_NAMESPACE") or NAMESPACE_DEFAULT
        self.codec = codec
        kind = Session if codec is None else partial(CodecSession, codec=codec)
        self._session = kind(
            connect or tcp(self.address),
            self.address,
            client=f"flo-python/{VERSION}",
            timeout_s=timeout,
            rng=rng,
        )
        self.actions = Actions(self._session, self.namespace)
        self.workers = Workers(self._session, self.namespace)
        self.workflows = Workflows(self._session, self.namespace)
        self.schedules = Schedules(self._session, self.namespace)
        self.pipelines = Pipelines(self._session, self.namespace)
        self.blocks = Blocks(self._session, self.namespace)
        self.plans = Plans(self._session, self.namespace)
        self.events = Events(self._session, self.namespace)
        self.streams = Streams(self._session, self.namespace)
        self.kv = Kv(self._session, self.namespace)
        self.namespaces = Namespaces(self._session)
        self.secrets = Secrets(self._session, self.namespace)
        self.audit = Audit(self._session, self.namespace)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect now; Unavailable if the server cannot be reached."""
        await self._session.connect()

    async def close(self) -> None:
        await self._session.close()

    async def call(self, message: Command[R] | Query[R]) -> R:
        """Send any operation, in the namespace of this client."""
        if "namespace" in message.__struct_fields__:
            message = msgspec.structs.replace(message, namespace=self.namespace)
        return await self._session.call(message)

    async def ping(self) -> None:
        await self._session.call(Ping())
