"""What every noun of a client has: the session that sends its messages, and a namespace."""

import asyncio

from msgspec.structs import force_setattr

from flo.client.session.session import Session
from flo.model.declare.operation import Command, Query, R
from flo.model.ids import Namespace


class Noun:
    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace

    def _call(
        self, message: Command[R] | Query[R], timeout_s: float | None = None
    ) -> asyncio.Future[R]:
        """Send a message, which was made for this call, to the namespace of the client."""
        force_setattr(message, "namespace", self._namespace)
        return self._session.call(message, timeout_s=timeout_s)
