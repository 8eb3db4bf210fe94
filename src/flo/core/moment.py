"""The time, the dice, the live board and the archive's memory, as handed to one decision."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from flo.core.live import Live
from flo.model.archive import ArchiveKey
from flo.model.ids import RunId
from flo.model.runs import Run


class Recalled(NamedTuple):
    """What the archive was asked for this decision, and what it knew; None is "no such".

    All of it is kept by the name it is filed under: what was recalled of a namespace that has been
    deleted meanwhile is not mistaken for something of the one that came after it.
    """

    keys: Mapping[ArchiveKey, RunId | None] = {}
    runs: Mapping[tuple[str, RunId], Run | None] = {}
    pages: Mapping[str, tuple[Run, ...]] = {}


NOTHING_RECALLED = Recalled()


class Moment(NamedTuple):
    now_ms: int
    dice: Callable[[], float]
    """A number from 0 up to 1, another one at every call."""
    live: Live
    recalled: Recalled = NOTHING_RECALLED
