"""A growing count on the terminal while long work goes on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Progress: TypeAlias = Callable[[int], None]
"""Says how much is done by now."""


@contextmanager
def progress(what: str, *, hidden: bool = False) -> Iterator[Progress]:
    """While this lasts, a terminal shows how many there are; what is not one is left alone."""
    if hidden or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"0 {what}") as status:
        yield lambda count: status.update(f"{count:,} {what}")
