"""The HTTP route of an operation, as its declaration states it.

    @operation(opcode=15, http=Route("POST", "/actions/{name}/disable"), …)

The fields in the path are path parameters. Of the others, `namespace` is a query parameter; the
rest is the JSON body of a POST, and query parameters elsewhere, unless one of them is a list or an
object.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

NO_NAMES: Mapping[str, str] = {}
NO_DEFAULTS: Mapping[str, Any] = {}


class Route(NamedTuple):
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    status: int = 200
    """Of the answer when all went well; what answers nothing is 204."""
    errors: tuple[int, ...] = ()
    """The statuses of its errors, besides those that every route has."""
    name: str = ""
    """Its name in the description of the API, if not the operation's."""
    names: Mapping[str, str] = NO_NAMES
    """Parameter, or field of the body → the field it stands for, where they differ."""
    defaults: Mapping[str, Any] = NO_DEFAULTS
    """Field → its default over HTTP, where that differs."""
    without: tuple[str, ...] = ()
    """Fields that cannot be given over HTTP: they have their default."""
    flat: str = ""
    """A field that is a struct, and whose own fields are given instead of it."""
    answer: str = ""
    """The query whose reply is the answer, if not the operation's own."""
    is_body_optional: bool = False
    is_body_long: bool = False
    """Whether the body may be as long as a payload, though there is none in it."""
