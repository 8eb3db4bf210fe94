"""Lists that come in pages: how many items to show, and after which."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import click

from flo.model.ids import LIST_LIMIT_MAX

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    @property
    def items(self) -> Sequence[T_co]: ...

    @property
    def cursor(self) -> str | None: ...


def page_options(limit_default: int) -> Callable[[F], F]:
    limit = click.option(
        "-l",
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=limit_default,
        show_default=True,
        help="How many to show at most.",
    )
    cursor = click.option("--cursor", help="Go on where an earlier list ended.")
    return lambda command: limit(cursor(command))


def collect(
    ask: Callable[[int, str | None], Page[T]], limit: int, cursor: str | None
) -> tuple[list[T], str | None]:
    """Up to `limit` items, over as many pages as it takes, and where the next would begin.

    A page may be empty although there are more: the server looks at so many items and no further.
    """
    items: list[T] = []
    while True:
        page = ask(min(limit - len(items), LIST_LIMIT_MAX), cursor)
        items += page.items
        cursor = page.cursor
        if cursor is None or len(items) >= limit:
            return items, cursor
