"""The entities of a job, and what became of them.

    device = ctx.devices[0]
    device.model = "new"                                      a patch
    ctx.devices.create(hostname="r9", identifier_fields=["hostname"])
    ctx.interfaces.delete(interface)

What was changed is found by comparing with what came; it is reported if the block succeeds.
"""

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

NEW_ID_MIN = 10_000_000
NEW_ID_MAX = 2**31 - 1
"""A new entity has an id of this range, until the server gives it one of its own."""
NOT_COMPARED = frozenset(
    {"id", "created_at", "createdAt", "updated_at", "updatedAt", "deleted_at", "deletedAt"}
)


class Entity:
    """A document with fields that can be read and set as attributes, or by their names."""

    __slots__ = ("_fields", "_identifier_fields", "_skip_if_exists")
    _fields: dict[str, Any]

    def __init__(
        self,
        fields: dict[str, Any],
        identifier_fields: Sequence[str] = (),
        skip_if_exists: bool = False,
    ) -> None:
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_identifier_fields", list(identifier_fields))
        object.__setattr__(self, "_skip_if_exists", skip_if_exists)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            known = ", ".join(self._fields)
            raise AttributeError(f"there is no field {name!r}, only {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __repr__(self) -> str:
        return f"Entity({self._fields!r})"

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name, default)

    def fields(self) -> dict[str, Any]:
        """The whole document."""
        return self._fields


class Entities(Sequence[Entity]):
    """All entities of a kind that the run has locked."""

    def __init__(self, kind: str, documents: Iterable[dict[str, Any]]) -> None:
        self._kind = kind
        self._items = [Entity(document) for document in documents]
        self._before = {one.id: copy.deepcopy(one.fields()) for one in self._items}

    @overload
    def __getitem__(self, index: int) -> Entity: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entity]: ...
    def __getitem__(self, index: int | slice) -> Entity | Sequence[Entity]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Entities({self._kind!r}, {self._items!r})"

    def by_id(self, entity_id: int | None) -> Entity | None:
        return next((one for one in self._items if one.id == entity_id), None)

    def create(
        self,
        *,
        identifier_fields: Sequence[str],
        skip_if_exists: bool = True,
        **fields: Any,
    ) -> Entity:
        """A new one. If one with the same values of `identifier_fields` is there already, that one
        stays as it is, unless `skip_if_exists` is False.
        """
        number = random.randint(NEW_ID_MIN, NEW_ID_MAX)
        entity = Entity({"id": number, **fields}, identifier_fields, skip_if_exists)
        self._items.append(entity)
        return entity

    def delete(self, entity: Entity) -> None:
        self._items = [one for one in self._items if one is not entity]

    def changes(self) -> Iterator[dict[str, Any]]:
        """What was created, patched and deleted, as it is reported."""
        left = set(self._before)
        for entity in self._items:
            before = self._before.get(entity.id)
            if before is None:
                yield self._created(entity)
            else:
                left.discard(entity.id)
                yield from self._patched(entity, before)
        for entity_id in self._before:
            if entity_id in left:
                yield {"operation": "delete", "entity": self._kind, "id": entity_id}

    def _created(self, entity: Entity) -> dict[str, Any]:
        data = {name: value for name, value in entity.fields().items() if name != "id"}
        return {
            "operation": "create",
            "entity": self._kind,
            "id": entity.id,
            "data": data,
            "identifierFields": entity._identifier_fields,
            "skipIfIdentifierExists": entity._skip_if_exists,
        }

    def _patched(self, entity: Entity, before: dict[str, Any]) -> Iterator[dict[str, Any]]:
        now = entity.fields()
        for name in (*now, *(name for name in before if name not in now)):
            if name not in NOT_COMPARED and now.get(name) != before.get(name):
                yield {
                    "operation": "patch",
                    "entity": self._kind,
                    "id": entity.id,
                    "path": name,
                    "value": now.get(name),
                }
