"""The base classes of every struct, so that their options are chosen once.

    Word     what travels: commands, questions, replies. A map by field name, and no other fields.
    Fact     what the log remembers: events. A tagged array; fields are only ever added at the end.
    Record   what State holds and snapshots and the archive keep. An array, as a Fact, without tag.
    Sign     what only Live remembers. Never encoded.

None of them can be part of a reference cycle, so Facts and Records stay out of the garbage
collector's sight: a million pending runs must not lengthen its walks.
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


class Message(
    msgspec.Struct, metaclass=_Frozen, frozen=True, kw_only=True, forbid_unknown_fields=True
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
