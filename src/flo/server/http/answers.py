"""The answers of the API as JSON: their types, for its description, follow from the replies.

A reply is an answer as it stands, unless there is a payload in it (which gets its encoding beside
it) or a struct that travels as an array (and is answered as an object).
"""

from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from litestar.openapi.datastructures import ResponseSpec

from flo.model.base import Message
from flo.model.declare.payload import Encoding, encoding_field, payload_fields, to_json_values
from flo.server.http.errors import refusals
from flo.server.http.records import MAKERS, TYPES

PAYLOAD = """

A payload is JSON if its bytes are (encoding json), text if they are text (text), base64 if neither
(base64), and null if there are none (null).
"""


def answered(reply: Message) -> Any:
    """A reply as it is answered."""
    return to_json_values(reply, MAKERS)


def answers(
    kind: type[msgspec.Struct], description: str, *errors: int, status: int = 200
) -> dict[int, ResponseSpec]:
    """For the description of a route: what it answers when all went well, and its errors."""
    answer = ResponseSpec(answer_type(kind), description=description, generate_examples=False)
    return {status: answer, **refusals(*errors)}


@cache
def answer_type(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The type of a reply, or of a part of one, as it is answered."""
    if kind in TYPES:
        return TYPES[kind]
    fields: list[Any] = []
    payloads = payload_fields(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in payloads:
            fields.append((field.name, Any))
            fields.append((encoding_field(field.name), Encoding | None))
        else:
            fields.append((field.name, _answered(field.type)))
    is_same = all(
        field.type == answered
        for field, (_, answered) in zip(msgspec.structs.fields(kind), fields, strict=False)
    )
    if is_same and not payloads and not kind.__struct_config__.array_like:
        return kind
    return msgspec.defstruct(
        f"{kind.__name__.removesuffix('View')}Json",
        fields,
        bases=(Message,),
        namespace={"__doc__": (kind.__doc__ or "") + (PAYLOAD if payloads else "")},
    )


def _answered(annotation: Any) -> Any:
    """The type of a field, with the structs in it as they are answered."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return answer_type(annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_answered(parts[0]), *parts[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(_answered(part) for part in parts)]  # noqa: UP007 (made at run time)
    if origin is list:
        return GenericAlias(list, (_answered(parts[0]),))
    return annotation
