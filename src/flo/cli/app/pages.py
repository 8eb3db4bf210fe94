"""Lists that come in pages: how many items to show, and after which."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import click
import msgspec

from flo.model.declare.operation import Query
from flo.model.ids import LIST_LIMIT_MAX

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LIMIT_DEFAULT = 100


class Page(Protocol[T_co]):
    @property
    def items(self) -> Sequence[T_co]: ...

    @property
    def cursor(self) -> str | None: ...


def page_options(limit_default: int) -> list[click.Parameter]:
    return [
        click.Option(
            ["-l", "--limit"],
            type=click.IntRange(min=1),
            metavar="N",
            default=limit_default,
            show_default=True,
            help="How many to show at most.",
        ),
        click.Option(["--cursor"], help="Go on where an earlier list ended."),
    ]


def collect(
    call: Callable[[Query[Page[T]]], Page[T]], query: Query[Page[T]], limit: int
) -> tuple[list[T], str | None]:
    """Up to `limit` items, over as many pages as it takes, and where the next would begin.

    A page may be empty although there are more: the server looks at so many items and no further.
    """
    items: list[T] = []
    while True:
        left = min(limit - len(items), LIST_LIMIT_MAX)
        page = call(msgspec.structs.replace(query, limit=left))
        items += page.items
        if page.cursor is None or len(items) >= limit:
            return items, page.cursor
        query = msgspec.structs.replace(query, cursor=page.cursor)
