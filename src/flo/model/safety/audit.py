"""The audit: who did what, and who was refused; the query, its reply."""

from typing import Annotated

from flo.model.base import Message
from flo.model.declare.fields import Cursor, Limit, about
from flo.model.declare.operation import Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace

ALLOWED = "allowed"
AUDIT_KIND = "audit"


class AuditEntry(Message):
    number: int
    at_ms: int
    namespace: str
    operation: str
    target: str
    outcome: str
    """`allowed`, or the code of the refusal."""
    source: str
    address: str
    actor: str | None
    reason: str | None
    position: int
    """Where the entry is in the log; what it is about comes before it in the same append."""


class AuditPage(Message):
    items: list[AuditEntry]
    cursor: str | None = None


@operation(
    opcode=280,
    permission=Permission.AUDIT_READ,
    http=Route("GET", "/audit"),
)
class ListAudit(Query[AuditPage]):
    """The audit of a namespace, the newest entry first: who did what, and who was refused.

    A page may have fewer entries than the limit, also none; there are more while it has a cursor.
    """

    namespace: Namespace = NAMESPACE_DEFAULT
    actor: Annotated[str | None, about("Only what this one did.")] = None
    target: Annotated[str | None, about("Only what was done to this.")] = None
    operation: Annotated[str | None, about("Only this operation, as delete_action.")] = None
    since_ms: Annotated[int | None, about("Only from this time on.")] = None
    refused: Annotated[bool, about("Only what was refused.")] = False
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
