"""Entities (devices, interfaces, groups): documents under keys, which blocks read and change.

    entities/device/7    {"id": 7, "hostname": "r1", …}      locked as device:7

A block sees the documents of what its run has locked, as the steps before it have left them. What
they have made of them is written in the commit that ends the run.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from flo.engine.blocks.records import Ledger
from flo.engine.state import Space
from flo.model.blocks.jobs import JobContext
from flo.model.blocks.ledger import EntryState
from flo.model.blocks.names import LockMode
from flo.model.errors import Invalid
from flo.model.kv import Change, Delete, Put

ENTITY_PREFIX = "entities/"
KINDS = ("device", "interface", "group")
UPDATES_MAX = 10_000
STANDS = frozenset(
    {EntryState.OPEN, EntryState.NEEDLESS, EntryState.ROLLBACK_FAILED, EntryState.BLOCKED}
)
"""What an entry in such a state has done has not been undone."""

Documents = dict[tuple[str, int], dict[str, Any]]


def entity_key(kind: str, number: int) -> str:
    return f"{ENTITY_PREFIX}{kind}/{number}"


def lock_of_entity(kind: str, number: int) -> str:
    return f"{kind}:{number}"


def entity_of_lock(key: str) -> tuple[str, int] | None:
    """The entity that is locked with this key, if it is one."""
    kind, _, digits = key.partition(":")
    if kind not in KINDS or not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        return None
    return kind, int(digits)


def document(space: Space, kind: str, number: int, now_ms: int) -> dict[str, Any] | None:
    known = space.kv.get(entity_key(kind, number), now_ms)
    if known is None:
        return None
    try:
        found = msgspec.json.decode(known.value, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return {**found, "id": number}


def context_of(space: Space, ledger: Ledger, now_ms: int) -> JobContext:
    """The documents of what a run has locked, as its steps have left them."""
    documents: Documents = {}
    for key in ledger.wanted:
        entity = entity_of_lock(key)
        found = document(space, *entity, now_ms) if entity is not None else None
        if entity is not None and found is not None:
            documents[entity] = found
    for update in updates_of(ledger):
        _overlay(documents, update)
    lists: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for (kind, _), found in sorted(documents.items()):
        lists[kind].append(found)
    return JobContext(
        devices=lists["device"], deviceGroups=lists["group"], interfaces=lists["interface"]
    )


def updates_of(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """What the steps of a run have made of entities, as far as it stands."""
    for entry in sorted(ledger.entries, key=lambda one: (one.wave, one.number)):
        if entry.updates and entry.outcome == "success" and entry.state in STANDS:
            yield from msgspec.json.decode(entry.updates)


def _overlay(documents: Documents, update: dict[str, Any]) -> None:
    place = update["entity"], update["id"]
    match update["operation"]:
        case "create":
            documents[place] = {**update.get("data", {}), "id": update["id"]}
        case "patch":
            if place in documents:
                documents[place] = {**documents[place], update["path"]: update.get("value")}
        case _:
            documents.pop(place, None)


def check_updates(updates: list[dict[str, Any]]) -> bytes:
    """The updates as they are kept; refuses what could not be applied."""
    if len(updates) > UPDATES_MAX:
        raise Invalid(f"expected at most {UPDATES_MAX} updates, got {len(updates)}")
    for update in updates:
        kind, number = update.get("entity"), update.get("id")
        if kind not in KINDS or not isinstance(number, int) or not 1 <= number < 2**53:
            raise Invalid(f"expected updates of {', '.join(KINDS)} with an id, got {update!r:.200}")
        match update.get("operation"):
            case "create":
                if not isinstance(update.get("data", {}), dict):
                    raise Invalid("expected an object as the data of what is created")
                fields = update.get("identifierFields") or []
                if not all(isinstance(one, str) for one in fields):
                    raise Invalid("expected names as identifierFields")
            case "patch":
                path = update.get("path")
                if not isinstance(path, str) or not path or path == "id":
                    raise Invalid(f"expected the name of a field as the path, got {path!r:.80}")
            case "delete":
                pass
            case other:
                raise Invalid(f"expected create, patch or delete, got {other!r:.80}")
    return msgspec.json.encode(updates) if updates else b""


def changes_of(space: Space, ledger: Ledger, now_ms: int) -> Iterator[Change]:
    """The changes of keys that follow from a run; what is created gets a number of its own."""
    documents: dict[tuple[str, int], dict[str, Any] | None] = {}
    numbers: dict[str, int] = {}
    renamed: dict[tuple[str, int], tuple[str, int]] = {}
    for update in updates_of(ledger):
        kind, place = update["entity"], (update["entity"], update["id"])
        place = renamed.get(place, place)
        if update["operation"] == "create":
            data = update.get("data", {})
            if update.get("skipIfIdentifierExists") and _exists(space, kind, update, now_ms):
                continue
            number = numbers.get(kind) or _next_number(space, kind)
            numbers[kind] = number + 1
            renamed[place] = (kind, number)
            documents[kind, number] = {**data, "id": number}
        elif update["operation"] == "delete":
            documents[place] = None
        else:
            before = documents[place] if place in documents else document(space, *place, now_ms)
            if before is not None:
                documents[place] = {**before, update["path"]: update.get("value")}
    for (kind, number), found in documents.items():
        key = entity_key(kind, number)
        if found is not None:
            yield Put(key=key, value=msgspec.json.encode(found))
        elif space.kv.get(key, now_ms) is not None:
            yield Delete(key=key)


def _next_number(space: Space, kind: str) -> int:
    prefix = f"{ENTITY_PREFIX}{kind}/"
    digits = (key.removeprefix(prefix) for key in space.kv.with_prefix(prefix, None))
    return max((int(one) for one in digits if one.isascii() and one.isdigit()), default=0) + 1


def _all(space: Space, kind: str, now_ms: int) -> Iterator[dict[str, Any]]:
    prefix = f"{ENTITY_PREFIX}{kind}/"
    for key in space.kv.with_prefix(prefix, None):
        digits = key.removeprefix(prefix)
        if digits.isascii() and digits.isdigit():
            found = document(space, kind, int(digits), now_ms)
            if found is not None:
                yield found


def _exists(space: Space, kind: str, update: dict[str, Any], now_ms: int) -> bool:
    fields, data = update.get("identifierFields") or [], update.get("data", {})
    return bool(fields) and any(
        all(found.get(field) == data.get(field) for field in fields)
        for found in _all(space, kind, now_ms)
    )


def locks_of_query(space: Space, acquire: dict[str, Any], now_ms: int) -> dict[str, LockMode]:
    """What a query for entities asks to lock: `field:pattern` terms, all of which must fit."""
    kind, query = acquire.get("entity"), acquire.get("query")
    if acquire.get("type") != "elastic" or kind not in KINDS or not isinstance(query, str):
        raise Invalid(
            "expected acquires as {type: elastic, entity: device, query: 'hostname:r*'}, "
            f"got {acquire!r:.200}"
        )
    terms = [term.partition(":") for term in query.split() if term != "AND"]
    return {
        lock_of_entity(str(kind), found["id"]): LockMode.EXCLUSIVE
        for found in _all(space, str(kind), now_ms)
        if all(_fits(found, field, pattern) for field, _, pattern in terms)
    }


def _fits(found: dict[str, Any], field: str, pattern: str) -> bool:
    if (field, pattern) == ("*", "*"):
        return True
    return fnmatchcase(str(found.get(field, "")), pattern.strip('"'))
