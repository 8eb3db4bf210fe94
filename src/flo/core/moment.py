"""The time, the dice, the live board and the archive's memory, as handed to one decision."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from flo.core.live import Live
from flo.model.archive import ArchiveKey
from flo.model.ids import Namespace, RunId
from flo.model.runs import Run


class Recalled(NamedTuple):
    """What the archive was asked for this decision, and what it knew; None is "no such"."""

    keys: Mapping[ArchiveKey, RunId | None] = {}
    runs: Mapping[tuple[Namespace, RunId], Run | None] = {}
    page: tuple[Run, ...] | None = None


NOTHING_RECALLED = Recalled()


class Moment(NamedTuple):
    now_ms: int
    dice: Callable[[], float]
    """A number from 0 up to 1, another one at every call."""
    live: Live
    recalled: Recalled = NOTHING_RECALLED
