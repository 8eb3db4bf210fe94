"""Pages of a list: what is on one, and the cursor of the next."""

import re
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Protocol, TypeVar

from sortedcontainers import SortedDict

from flo.model.errors import Invalid

_NUMBER = re.compile(r"[0-9]+")


T = TypeVar("T")


class Paged(Protocol):
    @property
    def limit(self) -> int: ...

    @property
    def cursor(self) -> str | None: ...


def page_of(
    known: SortedDict[str, T],
    query: Paged,
    *,
    prefix: str = "",
    fits: Callable[[T], bool] = lambda one: True,
) -> tuple[list[str], str | None]:
    """The names of one page in order, and the cursor of the next."""
    after = max(query.cursor or "", prefix)
    names = known.irange(minimum=after, inclusive=(after != query.cursor, True))
    fitting = (name for name in takewhile(_begins_with(prefix), names) if fits(known[name]))
    page = list(islice(fitting, query.limit + 1))
    more = len(page) > query.limit
    return page[: query.limit], page[query.limit - 1] if more else None


def _begins_with(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


def number_below(query: Paged, end: int) -> int:
    """The number that everything on a page is under, in a list from the newest on."""
    if query.cursor is None:
        return end
    return min(parse_number(query.cursor), end)


def parse_number(cursor: str, digits_max: int = 18) -> int:
    if not _NUMBER.fullmatch(cursor) or len(cursor) > digits_max:
        raise Invalid(f"expected a cursor of an earlier page, got {cursor[:80]!r}")
    return int(cursor)
