"""Rules of keys and values: put, delete, count, expire, change JSON, do several at once.

Every change is decided here in one step, so that what is checked and what is written cannot come
apart. A transaction that is filled call by call is in VolatileState until it commits: nobody else
sees any of it before, and it commits only if nothing that it read has changed.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import KEY, DueKey
from flo.engine.kv.events import (
    KeyDeleted,
    KeyExpired,
    KeyKept,
    KeyPut,
    TransactionClosed,
    TransactionFilled,
    TransactionOpened,
)
from flo.engine.kv.json_paths import delete_at, parse_document, parse_path, set_at
from flo.engine.kv.keys import Keys
from flo.engine.kv.records import KeyValue, Version
from flo.engine.state import State
from flo.engine.volatile import OpenTransaction
from flo.model.base import Event, Nothing
from flo.model.declare.fields import check_fields
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.ids import Key, Namespace, check_key
from flo.model.kv import (
    HISTORY_LENGTH_MAX,
    HISTORY_MAX,
    NUMBER_MAX,
    OPERATIONS_PER_TRANSACTION_MAX,
    TRANSACTION_IDLE_MS_MAX,
    TRANSACTION_LENGTH_MAX,
    TRANSACTIONS_OPEN_MAX,
    VALUE_LENGTH_MAX,
    BeginTransaction,
    Change,
    Check,
    Committed,
    CommitTransaction,
    Delete,
    Deleted,
    DeleteJson,
    DeleteKey,
    ExpireKey,
    Increment,
    Incremented,
    IncrementKey,
    Put,
    PutKey,
    ReadInTransaction,
    RollbackTransaction,
    SetJson,
    Transact,
    Transaction,
    Value,
    Versioned,
)

_NUMBER = re.compile(rb"-?[0-9]{1,19}")


class _Seen(NamedTuple):
    """A key as the changes of a transaction so far leave it."""

    value: bytes | None
    expires_at_ms: int | None


def decide_put(state: State, command: PutKey, context: Context) -> Decision:
    if command.if_absent and command.if_present:
        raise Invalid("expected if_absent or if_present, got both")
    if command.transaction is not None:
        change = Put(key=command.key, value=command.value, ttl_ms=command.ttl_ms)
        return _fill(command.transaction, command.namespace, change, command, context)
    keys = state.space(command.namespace).kv
    _check_conditions(keys, command, context.now_ms)
    put = _put(command.namespace, command.key, command.value, keys.version + 1, context)
    if command.ttl_ms is not None:
        put = replace(put, expires_at_ms=context.now_ms + command.ttl_ms)
    return Decision(Versioned(version=put.version), (put,))


def decide_delete(state: State, command: DeleteKey, context: Context) -> Decision:
    if command.transaction is not None:
        change = Delete(key=command.key)
        return _fill(command.transaction, command.namespace, change, command, context)
    keys = state.space(command.namespace).kv
    _check_version(keys, command.key, command.if_version, context.now_ms)
    if keys.get(command.key, context.now_ms) is None:
        return Decision(Deleted(existed=False))
    return Decision(Deleted(existed=True), (_deleted(command, keys, context),))


def decide_increment(state: State, command: IncrementKey, context: Context) -> Decision:
    if command.transaction is not None:
        change = Increment(key=command.key, delta=command.delta)
        return _fill(command.transaction, command.namespace, change, None, context)
    keys = state.space(command.namespace).kv
    known = keys.get(command.key, context.now_ms)
    number = _sum(command.key, known.value if known is not None else None, command.delta)
    put = _put(command.namespace, command.key, b"%d" % number, keys.version + 1, context, known)
    return Decision(Incremented(version=put.version, value=number), (put,))


def decide_expire(state: State, command: ExpireKey, context: Context) -> Decision:
    keys = state.space(command.namespace).kv
    known = _known(keys, command.key, context.now_ms)
    _check_version(keys, command.key, command.if_version, context.now_ms)
    expires_at_ms = None
    if command.ttl_ms is not None:
        expires_at_ms = context.now_ms + command.ttl_ms
    kept = KeyKept(
        namespace=command.namespace,
        key=command.key,
        expires_at_ms=expires_at_ms,
        at_ms=context.now_ms,
    )
    return Decision(Versioned(version=known.version), (kept,))


def decide_set_json(state: State, command: SetJson, context: Context) -> Decision:
    keys = state.space(command.namespace).kv
    _check_version(keys, command.key, command.if_version, context.now_ms)
    value = parse_document(command.document, "the value")
    known = keys.get(command.key, context.now_ms)
    document: Any = None
    if parse_path(command.path):
        document = parse_document(_known(keys, command.key, context.now_ms).value, "the document")
    written = set_at(document, command.path, value)
    _check_value(written)
    put = _put(command.namespace, command.key, written, keys.version + 1, context, known)
    return Decision(Versioned(version=put.version), (put,))


def decide_delete_json(state: State, command: DeleteJson, context: Context) -> Decision:
    keys = state.space(command.namespace).kv
    _check_version(keys, command.key, command.if_version, context.now_ms)
    known = _known(keys, command.key, context.now_ms)
    if not parse_path(command.path):
        return Decision(Versioned(version=None), (_deleted(command, keys, context),))
    written = delete_at(parse_document(known.value, "the document"), command.path)
    put = _put(command.namespace, command.key, written, keys.version + 1, context, known)
    return Decision(Versioned(version=put.version), (put,))


def decide_transact(state: State, command: Transact, context: Context) -> Decision:
    return _transacted(state, command, context)


def decide_begin(state: State, command: BeginTransaction, context: Context) -> Decision:
    volatile = context.volatile
    idle = [
        number
        for number, open_ in volatile.transactions.items()
        if context.now_ms - open_.touched_at_ms > TRANSACTION_IDLE_MS_MAX
    ]
    if len(volatile.transactions) - len(idle) >= TRANSACTIONS_OPEN_MAX:
        raise Conflict(
            f"{TRANSACTIONS_OPEN_MAX} transactions are open, and that is the most: commit or roll "
            "back some",
            code="too_many_transactions",
        )
    number = volatile.transactions_opened + 1
    closed = (TransactionClosed(transaction=one) for one in idle)
    opened = TransactionOpened(transaction=number, namespace=command.namespace)
    version = state.space(command.namespace).kv.version
    return Decision(
        Transaction(transaction=number, version=version), observations=(*closed, opened)
    )


def decide_commit(state: State, command: CommitTransaction, context: Context) -> Decision:
    open_ = _open(command.transaction, command.namespace, context)
    closed = TransactionClosed(transaction=command.transaction)
    changes = Transact(
        namespace=command.namespace, checks=list(open_.reads.values()), changes=open_.changes
    )
    if not open_.changes and not open_.reads:
        version = state.space(command.namespace).kv.version
        return Decision(Committed(version=version, changes=0), observations=(closed,))
    decision = _transacted(state, changes, context)
    return replace(decision, observations=(closed,))


def decide_rollback(state: State, command: RollbackTransaction, context: Context) -> Decision:
    _open(command.transaction, command.namespace, context)
    return Decision(Nothing(), observations=(TransactionClosed(transaction=command.transaction),))


def decide_read(state: State, command: ReadInTransaction, context: Context) -> Decision:
    open_ = _open(command.transaction, command.namespace, context)
    known = state.space(command.namespace).kv.get(command.key, context.now_ms)
    seen = known.value if known is not None else None
    for change in open_.changes:
        if change.key == command.key:
            seen = _changed(change, seen)
    read = Check(key=command.key, version=known.version if known is not None else 0)
    observation = TransactionFilled(transaction=command.transaction, read=read)
    return Decision(Value(value=seen, version=read.version), observations=(observation,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterable[Event]:
    """A key has expired."""
    _, namespace, name = key
    yield KeyExpired(
        namespace=namespace,
        key=name,
        version=state.spaces[namespace].kv.version + 1,
        at_ms=context.now_ms,
    )


def apply_put(state: State, event: KeyPut) -> None:
    keys = state.space_made(event.namespace).kv
    known = keys.get(event.key, event.at_ms)
    keys.version = event.version
    keys.put(
        event.key,
        KeyValue(
            value=event.value,
            version=event.version,
            at_ms=event.at_ms,
            expires_at_ms=event.expires_at_ms,
            history=_history(known) if known is not None else (),
        ),
    )
    reschedule(state, event.namespace, event.key, event.expires_at_ms)


def apply_deleted(state: State, event: KeyDeleted | KeyExpired) -> None:
    keys = state.spaces[event.namespace].kv
    keys.remove(event.key)
    keys.version = event.version
    reschedule(state, event.namespace, event.key, None)


def apply_kept(state: State, event: KeyKept) -> None:
    keys = state.spaces[event.namespace].kv
    known = keys[event.key]
    keys.put(event.key, replace(known, expires_at_ms=event.expires_at_ms))
    reschedule(state, event.namespace, event.key, event.expires_at_ms)


def changes_length(changes: Sequence[Change]) -> int:
    """How many bytes of values these changes write."""
    return sum(len(change.value) for change in changes if isinstance(change, Put))


def _transacted(state: State, command: Transact, context: Context) -> Decision:
    """All of it: the checks on what is, the changes each on what the ones before it leave."""
    _check_size(command)
    keys = state.space(command.namespace).kv
    for check in command.checks:
        check_key(check.key)
        _check_version(keys, check.key, check.version, context.now_ms)
    version = keys.version + 1
    seen: dict[Key, _Seen] = {}
    sums: dict[Key, int] = {}
    for change in command.changes:
        check_fields(change)
        before = seen.get(change.key) or _seen(keys, change.key, context.now_ms)
        value = _changed(change, before.value)
        seen[change.key] = _Seen(value, _expiry(change, before, context.now_ms))
        if isinstance(change, Increment):
            sums[change.key] = int(value or 0)
    events = [
        event
        for key, one in seen.items()
        for event in _written(keys, key, one, version, command.namespace, context)
    ]
    reply = Committed(version=version if events else keys.version, changes=len(events), values=sums)
    return Decision(reply, tuple(events))


def _written(
    keys: Keys,
    key: Key,
    seen: _Seen,
    version: int,
    namespace: Namespace,
    context: Context,
) -> Iterable[Event]:
    """What becomes of one key when all the changes to it are done."""
    if seen.value is not None:
        put = _put(namespace, key, seen.value, version, context)
        yield replace(put, expires_at_ms=seen.expires_at_ms)
    elif keys.get(key, context.now_ms) is not None:
        yield KeyDeleted(namespace=namespace, key=key, version=version, at_ms=context.now_ms)


def _seen(keys: Keys, key: Key, now_ms: int) -> _Seen:
    known = keys.get(key, now_ms)
    return _Seen(known.value, known.expires_at_ms) if known is not None else _Seen(None, None)


def _expiry(change: Change, before: _Seen, now_ms: int) -> int | None:
    """When a key expires after a change: what counts on leaves it as it is."""
    match change:
        case Put(ttl_ms=ttl_ms):
            return now_ms + ttl_ms if ttl_ms is not None else None
        case Delete():
            return None
        case Increment():
            return before.expires_at_ms


def _changed(change: Change, before: bytes | None) -> bytes | None:
    match change:
        case Put(value=value):
            return value
        case Delete():
            return None
        case Increment(key=key, delta=delta):
            return b"%d" % _sum(key, before, delta)


def _fill(
    number: int,
    namespace: Namespace,
    change: Change,
    command: PutKey | DeleteKey | None,
    context: Context,
) -> Decision:
    open_ = _open(number, namespace, context)
    if command is not None and _has_conditions(command):
        raise Invalid(
            "expected no condition inside a transaction: read the key in it, and the commit "
            "checks that it has not changed",
            code="condition_in_transaction",
        )
    check_fields(change)
    _check_size(Transact(changes=[*open_.changes, change]))
    observation = TransactionFilled(transaction=number, change=change)
    reply = {
        Put: Versioned(version=None),
        Delete: Deleted(existed=False),
        Increment: Incremented(version=None, value=None),
    }[type(change)]
    return Decision(reply, observations=(observation,))


def _open(number: int, namespace: Namespace, context: Context) -> OpenTransaction:
    open_ = context.volatile.transactions.get(number)
    if (
        open_ is None
        or open_.namespace != namespace
        or context.now_ms - open_.touched_at_ms > TRANSACTION_IDLE_MS_MAX
    ):
        raise NotFound(
            f"transaction {number} is not open: it was committed, rolled back, left idle for more "
            f"than {TRANSACTION_IDLE_MS_MAX // 1_000} s, or the server was restarted",
            code="transaction_not_found",
        )
    return open_


def _put(
    namespace: Namespace,
    key: Key,
    value: bytes,
    version: int,
    context: Context,
    known: KeyValue | None = None,
) -> KeyPut:
    """A change of the value; of a known key, when it expires stays as it is."""
    return KeyPut(
        namespace=namespace,
        key=key,
        value=value,
        version=version,
        at_ms=context.now_ms,
        expires_at_ms=known.expires_at_ms if known is not None else None,
    )


def _deleted(command: DeleteKey | DeleteJson, keys: Keys, context: Context) -> KeyDeleted:
    return KeyDeleted(
        namespace=command.namespace,
        key=command.key,
        version=keys.version + 1,
        at_ms=context.now_ms,
    )


def _sum(key: Key, value: bytes | None, delta: int) -> int:
    if value is not None and not _NUMBER.fullmatch(value):
        raise Conflict(f"the value of {key!r} is no whole number", code="wrong_type")
    number = int(value or 0) + delta
    if not -NUMBER_MAX <= number <= NUMBER_MAX:
        raise Conflict(f"{key!r} would go past 64 bits: {number}", code="out_of_range")
    return number


def _history(known: KeyValue) -> tuple[Version, ...]:
    """The older values, with what is the present one; as many as may be kept."""
    older = (
        Version(version=known.version, at_ms=known.at_ms, value=known.value),
        *known.history,
    )
    length = 0
    for count, version in enumerate(older[:HISTORY_MAX]):
        length += len(version.value)
        if length > HISTORY_LENGTH_MAX:
            return older[:count]
    return older[:HISTORY_MAX]


def reschedule(state: State, namespace: Namespace, key: Key, at_ms: int | None) -> None:
    if at_ms is None:
        state.due.clear((KEY, namespace, key))
    else:
        state.due.set((KEY, namespace, key), at_ms)


def _known(keys: Keys, key: Key, now_ms: int) -> KeyValue:
    known = keys.get(key, now_ms)
    if known is None:
        raise NotFound(f"key {key!r} does not exist", code="key_not_found")
    return known


def _has_conditions(command: PutKey | DeleteKey) -> bool:
    if isinstance(command, PutKey) and (command.if_absent or command.if_present):
        return True
    return command.if_version is not None


def _check_conditions(keys: Keys, command: PutKey, now_ms: int) -> None:
    _check_version(keys, command.key, command.if_version, now_ms)
    is_there = keys.get(command.key, now_ms) is not None
    if (command.if_absent and is_there) or (command.if_present and not is_there):
        state = "exists" if is_there else "does not exist"
        raise Conflict(f"key {command.key!r} {state}", code="condition_failed")


def _check_version(keys: Keys, key: Key, version: int | None, now_ms: int) -> None:
    if version is None:
        return
    known = keys.get(key, now_ms)
    actual = known.version if known is not None else 0
    if actual != version:
        raise Conflict(
            f"expected version {version} of key {key!r}, it is {actual}"
            f"{'' if actual else ' (there is no such key)'}",
            code="version_mismatch",
            details={"key": key, "expected": version, "actual": actual},
        )


def _check_value(value: bytes) -> None:
    if len(value) > VALUE_LENGTH_MAX:
        raise TooLarge(f"expected a value of at most {VALUE_LENGTH_MAX} bytes, got {len(value)}")


def _check_size(command: Transact) -> None:
    operations = len(command.checks) + len(command.changes)
    if operations > OPERATIONS_PER_TRANSACTION_MAX:
        raise TooLarge(
            f"expected at most {OPERATIONS_PER_TRANSACTION_MAX} operations in a transaction, "
            f"got {operations}",
            code="transaction_too_large",
        )
    length = changes_length(command.changes)
    if length > TRANSACTION_LENGTH_MAX:
        raise TooLarge(
            f"expected at most {TRANSACTION_LENGTH_MAX} bytes of values in a transaction, "
            f"got {length}",
            code="transaction_too_large",
        )
