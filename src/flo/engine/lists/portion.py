"""A portion of a list: what one source knows of it, and from where on that is all.

    live      9   7   ·  │ ·          all that fit, down to its floor
    archive       8   6  │ 3  2       all that fit, down to its floor
    page      9   8  7  6             down to the higher floor; the next page begins there

An item has a position that never changes; the newest has the highest. So a page that begins under
the position where the one before it ended shows nothing twice and leaves nothing out, whatever
ends or begins meanwhile.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from flo.engine.lists.paging import Paged

T = TypeVar("T")


class Portion(NamedTuple, Generic[T]):
    items: dict[int, T]
    """By position, the highest first."""
    floor: int
    """No other item that fits stands here or higher; 0 if there is none at all."""


def portion(
    candidates: Iterable[tuple[int, T]],
    *,
    wanted: int,
    looked_at_max: int,
    fits: Callable[[T], bool] = lambda item: True,
    is_over: Callable[[T], bool] = lambda item: False,
) -> Portion[T]:
    """So many that fit of what comes from the newest on, after a look at no more than so many.

    What `is_over` is behind all that are wanted, as is whatever comes after it.
    """
    items: dict[int, T] = {}
    for count, (position, item) in enumerate(candidates, 1):
        if is_over(item):
            break
        if fits(item):
            items[position] = item
        if len(items) == wanted or count == looked_at_max:
            return Portion(items, position)
    return Portion(items, 0)


def together(*portions: Portion[T]) -> Portion[T]:
    """What several sources know; of what two of them know, the first is heard."""
    floor = max(one.floor for one in portions)
    found: dict[int, T] = {}
    for one in reversed(portions):
        found |= one.items
    return Portion({at: found[at] for at in sorted(found, reverse=True) if at >= floor}, floor)


def page_of_portion(
    known: Portion[T],
    query: Paged,
    length_of: Callable[[T], int] = lambda item: 0,
    length_max: int = 0,
) -> tuple[list[T], str | None]:
    """What a page shows, and the cursor of the next; about `length_max` bytes at most."""
    shown: list[T] = []
    length, last = 0, known.floor
    for position, item in known.items.items():
        if len(shown) == query.limit or length > length_max:
            return shown, str(last)
        shown.append(item)
        length, last = length + length_of(item), position
    return shown, str(known.floor) if known.floor > 1 else None
