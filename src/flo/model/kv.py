"""Keys and values: commands, queries, replies.

Every change in a namespace gets the next number; that number is the version of what it changed. So
versions only grow, and a key that was deleted and made again never has an old one.
"""

from typing import Annotated, TypeAlias

import msgspec

from flo.model.base import Message, Nothing
from flo.model.declare.fields import (
    BlockMs,
    CheckedKey,
    Cursor,
    ItemCount,
    NewNamespace,
    Payload,
    Range,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import DURATION_MS_MAX, NAMESPACE_DEFAULT, Key, Namespace

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
NUMBER_MAX = 2**63 - 1

TtlMs: TypeAlias = Annotated[
    int, Range(1, DURATION_MS_MAX * 10), about("After so many milliseconds the key is gone.")
]
ValueBytes: TypeAlias = Annotated[bytes, Payload("a value", VALUE_LENGTH_MAX), about("The value.")]
Delta: TypeAlias = Annotated[
    int, Range(-NUMBER_MAX, NUMBER_MAX), about("How much to add; less than 0 takes away.")
]
IfVersion: TypeAlias = Annotated[
    int | None,
    about("Only if this is the key's version; 0 stands for a key that does not exist."),
]
TransactionId: TypeAlias = Annotated[int, about("The open transaction.")]
InTransaction: TypeAlias = Annotated[int | None, about("The open transaction to do it in.")]
JsonPath: TypeAlias = Annotated[
    str,
    about(
        'Where in the document, such as $.user.name, $.items[0] or $["odd name"]; $ is all of it.'
    ),
]


class Check(Message):
    """That a key has this version; 0 stands for a key that does not exist."""

    key: Key
    version: int


class Put(Message, tag="put"):
    """Set a value."""

    key: CheckedKey
    value: ValueBytes
    ttl_ms: TtlMs | None = None


class Delete(Message, tag="delete"):
    """Delete a key, if it is there."""

    key: CheckedKey


class Increment(Message, tag="increment"):
    """Add to a whole number; a key that does not exist counts as 0."""

    key: CheckedKey
    delta: Delta = 1


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


@operation(opcode=101, batch_opcode=102, permission=Permission.KV_WRITE)
class PutKey(Command[Versioned]):
    """Set a value. What was set to expire no longer is, unless `ttl_ms` says so again."""

    key: CheckedKey
    value: ValueBytes
    namespace: NewNamespace = NAMESPACE_DEFAULT
    ttl_ms: TtlMs | None = None
    if_version: IfVersion = None
    if_absent: Annotated[bool, about("Only if the key does not exist.")] = False
    if_present: Annotated[bool, about("Only if the key exists.")] = False
    transaction: InTransaction = None


@operation(opcode=103, permission=Permission.KV_WRITE)
class DeleteKey(Command[Deleted]):
    """Delete a key; the answer says whether it existed."""

    key: CheckedKey
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: IfVersion = None
    transaction: InTransaction = None


@operation(
    opcode=107,
    permission=Permission.KV_WRITE,
    http=Route(
        "POST",
        "/kv/{key}/increment",
        errors=(409,),
        without=("transaction",),
        is_body_optional=True,
    ),
)
class IncrementKey(Command[Incremented]):
    """Add to a whole number; a key that does not exist counts as 0.

    A value that is no number is refused: `wrong_type`.
    """

    key: CheckedKey
    delta: Delta = 1
    namespace: NewNamespace = NAMESPACE_DEFAULT
    transaction: InTransaction = None


@operation(opcode=108, permission=Permission.KV_WRITE)
class ExpireKey(Command[Versioned]):
    """Set when a key is gone, or that it stays for good. Its version does not change."""

    key: CheckedKey
    ttl_ms: Annotated[
        TtlMs | None, about("In so many milliseconds the key is gone; null: it stays.")
    ] = None
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: IfVersion = None


@operation(opcode=110, permission=Permission.KV_WRITE)
class SetJson(Command[Versioned]):
    """Set what is at a path in a JSON document; `$` is all of it, and makes the key if need be."""

    key: CheckedKey
    document: Annotated[bytes, about("The JSON to put there.")]
    path: JsonPath = "$"
    namespace: NewNamespace = NAMESPACE_DEFAULT
    if_version: IfVersion = None


@operation(opcode=111, permission=Permission.KV_WRITE)
class DeleteJson(Command[Versioned]):
    """Delete what is at a path in a JSON document; `$` deletes the key."""

    key: CheckedKey
    path: JsonPath = "$"
    namespace: Namespace = NAMESPACE_DEFAULT
    if_version: IfVersion = None


@operation(opcode=112, permission=Permission.KV_WRITE)
class Transact(Command[Committed]):
    """Do all of it or none of it: the checks first, then the changes in their order."""

    namespace: NewNamespace = NAMESPACE_DEFAULT
    checks: Annotated[list[Check], about("Versions that keys must have.")] = msgspec.field(
        default_factory=list
    )
    changes: Annotated[list[Change], about("What is to be done, in this order.")] = msgspec.field(
        default_factory=list
    )


@operation(opcode=113, permission=Permission.KV_WRITE)
class BeginTransaction(Command[Transaction]):
    """Open a transaction that is filled call by call; it is forgotten when left idle."""

    namespace: NewNamespace = NAMESPACE_DEFAULT


@operation(opcode=114, permission=Permission.KV_WRITE)
class CommitTransaction(Command[Committed]):
    """Do all that the transaction holds, if nothing that it read has changed."""

    transaction: TransactionId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=115, permission=Permission.KV_WRITE)
class RollbackTransaction(Command[Nothing]):
    """Forget a transaction; nothing of it happens."""

    transaction: TransactionId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=116, permission=Permission.KV_WRITE, repeatable=True)
class ReadInTransaction(Command[Value]):
    """The value as the transaction sees it; that it is so is checked when it commits."""

    key: CheckedKey
    transaction: TransactionId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=100, permission=Permission.KV_READ)
class GetKey(Query[Value]):
    """A value and its version; the answer after a wait is the key as it is."""

    key: CheckedKey
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: Annotated[
        BlockMs, about("Wait so long for the key to exist, or for `newer_than`.")
    ] = 0
    newer_than: Annotated[
        int | None, Range(0), about("Wait for the key to have another version than this.")
    ] = None


@operation(opcode=104, permission=Permission.KV_READ)
class GetKeys(Query[Values]):
    """The values of many keys, all of the same moment; a key that does not exist has version 0."""

    keys: Annotated[list[Key], ItemCount(KEYS_PER_GET_MAX, "keys"), about("The keys.")]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=109, permission=Permission.KV_READ)
class GetJson(Query[Value]):
    """What is at a path in a JSON document."""

    key: Key
    path: JsonPath = "$"
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=105,
    permission=Permission.KV_READ,
    http=Route("GET", "/kv", names={"values": "with_values"}),
)
class ScanKeys(Query[KeyPage]):
    """The keys, in order. With their values, a page may be shorter: about 4 MiB of them."""

    prefix: Annotated[str, about("Only keys that begin so.")] = ""
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Annotated[int, Range(1, SCAN_LIMIT_MAX), about("The most keys to answer.")] = (
        SCAN_LIMIT_DEFAULT
    )
    cursor: Cursor = None
    with_values: Annotated[bool, about("Whether to answer the values too.")] = False


@operation(
    opcode=106, permission=Permission.KV_READ, http=Route("GET", "/kv/{key}/history", errors=(404,))
)
class GetKeyHistory(Query[KeyHistory]):
    """The values a key had since it was made, the newest first, the present one included.

    Of older ones, 64 are kept, and no more than 64 KiB.
    """

    key: Key
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Annotated[int, Range(1, HISTORY_MAX + 1), about("The most values to answer.")] = 10
