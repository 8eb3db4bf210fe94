"""Keys and values: commands, queries, replies.

Every change in a namespace gets the next number; that number is the version of what it changed. So
versions only grow, and a key that was deleted and made again never has an old one.
"""

from typing import TypeAlias

import msgspec

from flo.model.base import Message, Nothing
from flo.model.ids import NAMESPACE_DEFAULT, Key, Namespace
from flo.model.operation import Command, Permission, Query, operation

VALUE_LENGTH_MAX = 256 * 1024
KEYS_PER_GET_MAX = 256
SCAN_LIMIT_DEFAULT = 100
SCAN_LIMIT_MAX = 1_000
HISTORY_MAX = 64
HISTORY_LENGTH_MAX = 64 * 1024
"""Bytes of older values that are kept of one key; the oldest go first."""
OPERATIONS_PER_TRANSACTION_MAX = 256
TRANSACTION_LENGTH_MAX = 1024 * 1024
TRANSACTIONS_OPEN_MAX = 1_024
TRANSACTION_IDLE_MS_MAX = 60_000
PATH_LENGTH_MAX = 1_024


class Check(Message):
    """That a key has this version; 0 stands for a key that does not exist."""

    key: Key
    version: int


class Put(Message, tag="put"):
    key: Key
    value: bytes
    ttl_ms: int | None = None


class Delete(Message, tag="delete"):
    key: Key


class Increment(Message, tag="increment"):
    key: Key
    delta: int = 1


Change: TypeAlias = Put | Delete | Increment


class Versioned(Message):
    """The version a change gave its key; None inside a transaction that is yet to commit."""

    version: int | None


class Deleted(Message):
    existed: bool


class Incremented(Message):
    version: int | None
    value: int | None


class Value(Message):
    """A value and its version; None if there is no such key."""

    value: bytes | None = None
    version: int = 0
    expires_at_ms: int | None = None


class Values(Message):
    """One for each key that was asked for, in order."""

    items: list[Value]


class KeyView(Message):
    key: Key
    version: int
    at_ms: int
    expires_at_ms: int | None
    value: bytes | None = None


class KeyPage(Message):
    items: list[KeyView]
    cursor: str | None = None


class VersionView(Message):
    version: int
    at_ms: int
    value: bytes


class KeyHistory(Message):
    items: list[VersionView]


class Transaction(Message):
    transaction: int
    version: int
    """The newest version there was when it began."""


class Committed(Message):
    """What a transaction came to: the version of all it changed, and the sums it counted."""

    version: int
    changes: int
    values: dict[Key, int] = msgspec.field(default_factory=dict)


@operation(opcode=101, batch_opcode=102, permission=Permission.KV_WRITE, repeatable=False)
class PutKey(Command[Versioned]):
    """Set a value. What was set to expire no longer is, unless `ttl_ms` says so again."""

    key: Key
    value: bytes
    namespace: Namespace = NAMESPACE_DEFAULT
    ttl_ms: int | None = None
    if_version: int | None = None
    """Only if this is the key's version; 0 stands for a key that does not exist."""
    if_absent: bool = False
    if_present: bool = False
    transaction: int | None = None


@operation(opcode=103, permission=Permission.KV_WRITE, repeatable=False)
class DeleteKey(Command[Deleted]):
    key: Key
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: int | None = None
    transaction: int | None = None


@operation(opcode=107, permission=Permission.KV_WRITE, repeatable=False)
class IncrementKey(Command[Incremented]):
    """Add to a whole number; a key that does not exist counts as 0."""

    key: Key
    delta: int = 1
    namespace: Namespace = NAMESPACE_DEFAULT
    transaction: int | None = None


@operation(opcode=108, permission=Permission.KV_WRITE, repeatable=False)
class ExpireKey(Command[Versioned]):
    """Let a key expire in `ttl_ms`; with None it stays for good. Its version stays as it is."""

    key: Key
    ttl_ms: int | None = None
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: int | None = None


@operation(opcode=110, permission=Permission.KV_WRITE, repeatable=False)
class SetJson(Command[Versioned]):
    """Set what is at a path in a JSON document; `$` is all of it, and makes the key if need be."""

    key: Key
    document: bytes
    path: str = "$"
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: int | None = None


@operation(opcode=111, permission=Permission.KV_WRITE, repeatable=False)
class DeleteJson(Command[Versioned]):
    """Delete what is at a path in a JSON document; `$` deletes the key."""

    key: Key
    path: str = "$"
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: int | None = None


@operation(opcode=112, permission=Permission.KV_WRITE, repeatable=False)
class Transact(Command[Committed]):
    """Do all of it or none of it: the checks first, then the changes in their order."""

    namespace: Namespace = NAMESPACE_DEFAULT
    checks: list[Check] = msgspec.field(default_factory=list)
    changes: list[Change] = msgspec.field(default_factory=list)


@operation(opcode=113, permission=Permission.KV_WRITE, repeatable=False)
class BeginTransaction(Command[Transaction]):
    """Open a transaction that is filled call by call; it is forgotten when left idle."""

    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=114, permission=Permission.KV_WRITE, repeatable=False)
class CommitTransaction(Command[Committed]):
    """Do all that the transaction holds, if nothing that it read has changed."""

    transaction: int
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=115, permission=Permission.KV_WRITE, repeatable=False)
class RollbackTransaction(Command[Nothing]):
    transaction: int
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=116, permission=Permission.KV_WRITE)
class ReadInTransaction(Command[Value]):
    """The value as the transaction sees it; that it is so is checked when it commits."""

    key: Key
    transaction: int
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=100, permission=Permission.KV_READ)
class GetKey(Query[Value]):
    """A value. With `block_ms`, wait for the key to exist, or to have another version than this."""

    key: Key
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 0
    newer_than: int | None = None


@operation(opcode=104, permission=Permission.KV_READ)
class GetKeys(Query[Values]):
    keys: list[Key]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=109, permission=Permission.KV_READ)
class GetJson(Query[Value]):
    key: Key
    path: str = "$"
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=105, permission=Permission.KV_READ)
class ScanKeys(Query[KeyPage]):
    """Keys that begin with a prefix, in order; their values only if asked for."""

    prefix: str = ""
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = SCAN_LIMIT_DEFAULT
    cursor: str | None = None
    with_values: bool = False


@operation(opcode=106, permission=Permission.KV_READ)
class GetKeyHistory(Query[KeyHistory]):
    """The values a key had since it was made, the newest first, the present one included."""

    key: Key
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = 10
