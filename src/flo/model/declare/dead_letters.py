"""What commands about dead letters share, whether these are runs or records of a group."""

from typing import Annotated, TypeAlias

from flo.model.base import Message
from flo.model.declare.fields import Limit, about

DEAD_PER_CALL_DEFAULT = 100

DeadLimit: TypeAlias = Annotated[Limit, about("The most dead letters, of those without an id.")]


class DeadLettersChanged(Message):
    """The dead letters that were requeued or purged; `more` says that there are others."""

    ids: list[str]
    more: bool = False
