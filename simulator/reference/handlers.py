"""Which method of a reference model reads which event: the one whose argument says so.

    @reads
    def _completed(self, event: RunCompleted) -> None: ...

simulator/reference/log.py merges the tables of all models, and refuses holes and doubles.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, get_args

from flo.model.base import Event

Handler: TypeAlias = Callable[[Any, Any], None]
H = TypeVar("H", bound=Handler)

_marked: set[Handler] = set()


def reads(method: H) -> H:
    """Mark the method as the one that reads the events its argument is annotated with."""
    _marked.add(method)
    return method


def handlers_of(model: type) -> dict[type[Event], str]:
    """The names of a model's handlers by the event that each of them reads."""
    table: dict[type[Event], str] = {}
    for name, method in vars(model).items():
        if callable(method) and method in _marked:
            annotated = method.__annotations__["event"]
            for kind in get_args(annotated) or (annotated,):
                assert kind not in table, f"{model.__name__} reads {kind.__name__} twice"
                table[kind] = name
    return table
