"""Pages of a list: what is on one, and the cursor of the next."""

import re
from collections.abc import Iterable
from typing import Protocol

from flo.model.errors import Invalid

_NUMBER = re.compile(r"[0-9]+")


class Paged(Protocol):
    @property
    def limit(self) -> int: ...

    @property
    def cursor(self) -> str | None: ...


def page_of(names: Iterable[str], query: Paged) -> tuple[list[str], str | None]:
    """The names of one page in order, and the cursor of the next."""
    after = query.cursor
    ordered = sorted(name for name in names if after is None or name > after)
    page = ordered[: query.limit]
    return page, page[-1] if len(ordered) > len(page) else None


def number_below(query: Paged, end: int) -> int:
    """The number that everything on a page is under, in a list from the newest on."""
    if query.cursor is None:
        return end
    return min(parse_number(query.cursor), end)


def parse_number(cursor: str, digits_max: int = 18) -> int:
    if not _NUMBER.fullmatch(cursor) or len(cursor) > digits_max:
        raise Invalid(f"expected a cursor of an earlier page, got {cursor[:80]!r}")
    return int(cursor)
