"""The audit: who did what, and who was refused."""

from flo.client.noun import Noun
from flo.model.ids import LIST_LIMIT_DEFAULT
from flo.model.safety.audit import AuditPage, ListAudit


class Audit(Noun):
    async def list(
        self,
        *,
        actor: str | None = None,
        target: str | None = None,
        operation: str | None = None,
        since_ms: int | None = None,
        refused: bool = False,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
    ) -> AuditPage:
        """The newest entries first; there are more while the page has a cursor."""
        return await self._call(
            ListAudit(
                actor=actor,
                target=target,
                operation=operation,
                since_ms=since_ms,
                refused=refused,
                limit=limit,
                cursor=cursor,
            )
        )
