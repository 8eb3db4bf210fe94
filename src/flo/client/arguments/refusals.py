"""Refusals of a message that cannot be read, in words about the arguments that it was made of."""

import re

import msgspec

from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.errors import FloError, Invalid, error_of

UNREADABLE = "invalid_request"

_WRONG_TYPE = re.compile(
    r"Expected `(?P<wanted>.+?)`, got `(?P<got>.+?)` - at `\$(\[\.\.\.\])?\.?(?P<path>.+)`"
)
_ARGUMENTS = {"action": "name", "delta": "by", "wasm_module": "wasm"}
"""Fields that the client calls otherwise."""
_WANTED = {"limits": "ActionLimits or None"}
"""Arguments that are structs, which travel as arrays."""
_TYPES = {"null": "None", "array": "list", "object": "dict"}


def about_arguments(error: FloError) -> FloError:
    """The refusal of a message, as its caller understands it."""
    message = _reworded(error.message) if error.code == UNREADABLE else error.message
    return error_of(error.kind, error.code, message, error.details)


def check_arguments(message: Message) -> None:
    """Refuse at once what the server would refuse of a message, types and bounds."""
    try:
        msgspec.convert(msgspec.to_builtins(message), type(message))
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(_reworded(str(error)), code=UNREADABLE) from None
    check_fields(message)


def unsendable(error: Exception) -> Invalid:
    """A message cannot be written at all."""
    return Invalid(f"the arguments cannot be sent: {error}", code=UNREADABLE)


def _reworded(message: str) -> str:
    found = _WRONG_TYPE.search(message)
    if found is None:
        return message
    field, *rest = re.split(r"(?=[.\[])", found["path"], maxsplit=1)
    name = _ARGUMENTS.get(field, field) + "".join(rest)
    wanted = _WANTED.get(name) or _python(found["wanted"])
    return f"expected {name} as {wanted}, got {_python(found['got'])}"


def _python(types: str) -> str:
    """Types by their names in Python, and not in JSON."""
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))
