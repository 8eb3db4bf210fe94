"""The base classes of every struct, so that their options are chosen once.

    Message      what travels: commands, queries, replies. A map by field name, no other fields.
    Event        what the log remembers. A tagged array; fields are only ever added at the end.
    Record       what State, snapshots and the archive hold. An array like an Event, without tag.
    Observation  what only VolatileState remembers. Never encoded.

None of them can be part of a reference cycle, so Events and Records are not tracked by the garbage
collector: a million pending runs must not slow its collections.
"""

from typing import TYPE_CHECKING, dataclass_transform

import msgspec

if TYPE_CHECKING:

    @dataclass_transform(
        frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,)
    )
    class _Frozen(msgspec.StructMeta):
        """Tells the type checker that subclasses are frozen too."""
else:
    _Frozen = msgspec.StructMeta  # a metaclass of our own would make every struct twice as slowly


def name_outside(field: str) -> str:
    """What a field is called where it travels: a moment, `created_at_ms`, is `created_at`."""
    return field.removesuffix("_ms") if field.endswith("_at_ms") else field


class Message(
    msgspec.Struct,
    metaclass=_Frozen,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename=name_outside,
):
    pass


class Event(
    msgspec.Struct,
    metaclass=_Frozen,
    frozen=True,
    kw_only=True,
    array_like=True,
    tag=True,
    gc=False,
):
    pass


class Record(
    msgspec.Struct, metaclass=_Frozen, frozen=True, kw_only=True, array_like=True, gc=False
):
    pass


class Observation(msgspec.Struct, metaclass=_Frozen, frozen=True, kw_only=True):
    pass


class Nothing(Message):
    """The reply when there is nothing to say but that it is done."""
