"""Locks of resources: who holds which, who waits, and how one that was kept is released."""

from typing import Annotated

from flo.model.base import Message, Nothing
from flo.model.blocks.names import LockKey, LockMode, Note
from flo.model.declare.fields import Cursor, Limit, Text, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId


class LockHolder(Message):
    run_id: RunId
    mode: LockMode
    token: int
    since_ms: int
    kept: bool
    """Whether its run has ended, and left undone what it did."""


class LockWaiter(Message):
    run_id: RunId
    mode: LockMode
    since_ms: int


class LockView(Message):
    """A lock that somebody holds or waits for."""

    key: str
    holders: list[LockHolder]
    waiters: list[LockWaiter]
    """Who came first is first."""


class LockPage(Message):
    items: list[LockView]
    cursor: str | None = None


@operation(
    opcode=216,
    permission=Permission.WORKFLOWS_READ,
    http=Route("GET", "/locks"),
)
class ListLocks(Query[LockPage]):
    """The locks that somebody holds or waits for, by key."""

    prefix: Annotated[str, Text(), about("Only keys that begin so.")] = ""
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=217,
    permission=Permission.WORKFLOWS_MANAGE,
    repeatable=False,
    http=Route("POST", "/locks/release", errors=(404, 409)),
)
class ReleaseLock(Command[Nothing]):
    """Release a lock that was kept because its run left undone what it did.

    A lock of a run that has not ended cannot be released: cancel the run.
    """

    key: LockKey
    reason: Note
    namespace: Namespace = NAMESPACE_DEFAULT
