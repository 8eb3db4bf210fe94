"""Events of a namespace: say that something has happened."""

from flo.client.noun import Noun
from flo.model.plans import EmitEvent, Emitted


class Events(Noun):
    async def emit(self, name: str) -> Emitted:
        """Let plans that name it in `invalidate_on` forget the results that they keep."""
        return await self._call(EmitEvent(name=name))
