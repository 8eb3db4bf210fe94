"""The base of every body of the blackboard API: camelCase, and unknown keys are ignored."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, dataclass_transform

import msgspec

from flo.model.errors import Invalid

if TYPE_CHECKING:

    @dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
    class _Meta(msgspec.StructMeta):
        """Tells the type checker that fields are given by name."""
else:
    _Meta = msgspec.StructMeta

Number: TypeAlias = int | float
"""What JSON Schema calls a number; the published client declares versions and ids so."""
Part: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^/:]+$", max_length=200)]
"""A package or a name: no slash, no colon."""

_B = TypeVar("_B", bound="Body")


class Body(msgspec.Struct, metaclass=_Meta, kw_only=True, rename="camel"):
    pass


def read_body(kind: type[_B], body: bytes) -> _B:
    """The body as this type; refuses what is not."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
        raise Invalid(f"body: {message}", code="invalid_body") from error


def iso(at_ms: int) -> str:
    """A moment as ISO 8601, with milliseconds, in UTC."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole(number: Number, what: str) -> int:
    """The number as an integer; refuses 1.5."""
    if isinstance(number, float) and not number.is_integer():
        raise Invalid(f"{what}: expected a whole number, got {number}", code="invalid_body")
    return int(number)


def json_object(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)
