"""Events of a namespace: say that something has happened."""

from flo.client.session.session import Session
from flo.model.ids import Namespace
from flo.model.plans import EmitEvent, Emitted


class Events:
    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace

    async def emit(self, name: str) -> Emitted:
        """Let plans that name it in `invalidate_on` forget the results that they keep."""
        command = EmitEvent(name=name, namespace=self._namespace)
        return await self._session.call(command)
