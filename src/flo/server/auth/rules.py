"""What an identity may do with an operation, as far as its message alone can tell."""

from collections.abc import Callable, Hashable
from enum import Enum, auto
from operator import attrgetter
from typing import Any

from flo.model.access.tokens import CreateToken, RevokeToken, RotateToken
from flo.model.base import Message
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.operation import DECLARED
from flo.model.errors import FloError, Forbidden
from flo.model.namespaces import ListNamespaces
from flo.server.auth.identity import Identity
from flo.server.auth.targets import LISTED, NAMELESS, TARGETS, TargetOf


class Ruling(Enum):
    ALLOWED = auto()
    FORBIDDEN = auto()
    """Its role does not allow the operation, whatever it is about."""
    HIDDEN = auto()
    """It is about something that is not to be seen: as if it were not there."""
    LOOKED_UP = auto()
    """It depends on what an id stands for."""
    FILTERED = auto()
    """Only some of what it lists may be seen."""
    GRANTS = auto()
    """It gives or takes rights: no more than its own."""


GRANTED = dict.fromkeys((CreateToken, RotateToken, RevokeToken), Ruling.GRANTS)


def verdict_on(identity: Identity, message: Message) -> Ruling:
    kind = type(message)
    permission = DECLARED[kind].permission
    is_granted = permission in identity.permissions
    if not is_granted and permission not in identity.own:
        return Ruling.FORBIDDEN
    target = TARGETS[kind]
    if target.namespace is None and kind not in NAMELESS:
        return _of_no_namespace(identity, kind)
    if target.namespace is not None and not identity.namespaces.allows(
        getattr(message, target.namespace)
    ):
        return Ruling.HIDDEN
    if not is_granted:
        return Ruling.LOOKED_UP if target.found_by is not None else Ruling.FORBIDDEN
    return Ruling.ALLOWED if identity.names.is_all else _by_name(identity, message, target)


def _of_no_namespace(identity: Identity, kind: type[Message]) -> Ruling:
    if kind is ListNamespaces:
        return Ruling.ALLOWED if identity.namespaces.is_all else Ruling.FILTERED
    return Ruling.FORBIDDEN if identity.is_scoped else GRANTED.get(kind, Ruling.ALLOWED)


def _by_name(identity: Identity, message: Message, target: TargetOf) -> Ruling:
    if target.names is not None:
        are_allowed = all(identity.names.allows(name) for name in target.names(message))
        return Ruling.ALLOWED if are_allowed else Ruling.HIDDEN
    if type(message) in LISTED:
        return Ruling.FILTERED
    return Ruling.LOOKED_UP if target.found_by is not None else Ruling.FORBIDDEN


def freely_allowed(identity: Identity) -> frozenset[type[Message]]:
    """The operations that it may do whatever they are about: most often, all that it may do."""
    if identity.is_scoped:
        return frozenset()
    return frozenset(
        one.message
        for one in OPERATIONS
        if one.permission in identity.permissions and one.message not in GRANTED
    )


def scope_keys(identity: Identity) -> dict[type[Message], Callable[[Any], Hashable]]:
    """Of the operations that it may do within its scope: what that depends on, of a message."""
    keys: dict[type[Message], Callable[[Any], Hashable]] = {}
    for one in OPERATIONS:
        target = TARGETS[one.message]
        if one.permission in identity.permissions and target.namespace == "namespace":
            if identity.names.is_all:
                keys[one.message] = attrgetter("namespace")
            elif target.ids == "run_id" and target.names is not None:
                keys[one.message] = _namespace_and_action
            elif target.name_field is not None:
                keys[one.message] = attrgetter("namespace", target.name_field)
    return keys


def _namespace_and_action(message: Any) -> Hashable:
    return message.namespace, message.run_id.rpartition("-")[0]


def may(identity: Identity, message: Message) -> bool:
    """Whether it may, as far as that does not depend on what must be looked up."""
    return verdict_on(identity, message) not in (Ruling.FORBIDDEN, Ruling.HIDDEN)


def forbidden(identity: Identity, message: Message) -> FloError:
    """It says what is missing, and nothing of what there is."""
    operation = DECLARED[type(message)]
    return Forbidden(
        f"the role {identity.role!r} may not {operation.name} here: it needs "
        f"{operation.permission.value}, in a namespace and for a name that its token allows",
        details={"permission": operation.permission.value},
    )
