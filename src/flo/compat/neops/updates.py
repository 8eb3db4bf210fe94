"""Changes of entities as a worker reports them, and as they are stored.

A worker names fields in snake_case, and is given documents in camelCase; documents are stored as
they are given.
"""

from typing import Any

from flo.compat.neops.body import whole
from flo.compat.neops.jobs import EntityUpdate, EntityUpdates


def stored_updates(reported: EntityUpdates) -> list[dict[str, Any]]:
    return [_stored(update) for update in reported.updates]


def camel(name: str) -> str:
    """`connection_state` is `connectionState`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _stored(update: EntityUpdate) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "operation": update.operation,
        "entity": update.entity,
        "id": whole(update.id, "id"),
    }
    if update.operation == "patch":
        stored |= {"path": camel(update.path or ""), "value": update.value}
    if update.operation == "create":
        stored |= {
            "data": {camel(name): value for name, value in (update.data or {}).items()},
            "identifierFields": [camel(name) for name in update.identifier_fields or ()],
            "skipIfIdentifierExists": bool(update.skip_if_identifier_exists),
        }
    return stored
