"""The table of opcodes: what each of them asks, and what it is answered.

It follows from the catalog of operations, and from what connections say to each other before and
between operations. `many` marks the batch forms: the request is a list of messages, the
reply a list with one answer for each, in order, and each is accepted or refused on its own.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from flo.model.base import Message, Nothing
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.operation import Query

PROTOCOL_VERSION = 1
HOUR_MS = 3_600_000
BATCH_LENGTH_MAX = 1_000


class Hello(Message):
    """The first thing a client says."""

    protocol: int
    client: str = ""
    dead_after_ms: Annotated[int, Meta(ge=0, le=HOUR_MS)] = 0
    """It pings, and is dead when nothing comes for so long; 0 if it may be silent."""
    token: str | UnsetType = UNSET
    """What lets it in, where that is asked for."""


class Welcome(Message):
    """The first thing a server answers."""

    protocol: int
    server: str
    frame_length_max: int
    batch_length_max: int = BATCH_LENGTH_MAX


class Ping(Query[Nothing]):
    """Is anybody there?"""


class Form(NamedTuple):
    """One opcode: how an operation is sent, alone or many in a frame."""

    opcode: int
    name: str
    request: type[Message]
    reply: type[Message]
    many: bool = False
    waits: bool = False
    """Whether it is a long poll, which says with `block_ms` how long it may wait."""


HELLO = Form(1, "hello", Hello, Welcome)
PING = Form(2, "ping", Ping, Nothing)


def _forms() -> Iterator[Form]:
    yield HELLO
    yield PING
    for one in OPERATIONS:
        yield Form(one.opcode, one.name, one.message, one.reply, waits=one.waits)
        if one.batch_opcode is not None:
            yield Form(one.batch_opcode, f"{one.name}_many", one.message, one.reply, many=True)


FORMS: tuple[Form, ...] = tuple(sorted(_forms()))
BY_OPCODE = {form.opcode: form for form in FORMS}
BY_NAME = {form.name: form for form in FORMS}
FORM_OF = {form.request: form for form in FORMS if not form.many}
BATCH_FORM_OF = {form.request: form for form in FORMS if form.many}

assert len(BY_OPCODE) == len(FORMS), "an opcode is used twice"
