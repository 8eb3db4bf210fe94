"""Structured logs: readable lines for people, JSON lines for programs; both on standard error.

What others have written can do nothing in them but be read, and cannot pass for a line of ours. Of
lines of one kind a few are written in an interval; the others are counted.
"""

import logging
import sys
import time
from collections.abc import Callable
from io import StringIO
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from flo.core.log_lines import PrintableFormatter
from flo.core.printable import printable, printable_line
from flo.model.errors import Invalid
from flo.server.config import LogFormat

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
LINES_OF_A_KIND_MAX = 5
INTERVAL_S = 10.0
GUEST_LOG = "guest_log"
"""What a WebAssembly module logs: bounded for each run, and every line says something else."""

_logger = structlog.get_logger("flo.log")


class KindCount(msgspec.Struct):
    """The lines of one kind in its interval: when that began, and how many there were."""

    began_s: float
    lines: int = 0

    @property
    def unwritten(self) -> int:
        return max(self.lines - LINES_OF_A_KIND_MAX, 0)


class RepeatedLines:
    """Drops lines of a kind of which there are too many, and says later how many there were.

    A kind is what happened and its code: what a line says besides may be an attacker's choice.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], KindCount] = {}

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:
        name = str(event["event"])
        if name == GUEST_LOG:
            return event
        kind = (name, str(event.get("code", "")))
        count = self._kinds.get(kind)
        if count is None or self._now_s() - count.began_s >= INTERVAL_S:
            before = count.unwritten if count is not None else 0
            self._kinds[kind] = count = KindCount(self._now_s())
            if before:
                event["not_logged"] = before
        count.lines += 1
        if count.unwritten:
            raise structlog.DropEvent
        return event

    def tell(self, *, all_of_them: bool = False) -> None:
        """Write how many lines of each kind are left out, once their interval is over."""
        now_s = self._now_s()
        over = {
            kind: count
            for kind, count in self._kinds.items()
            if all_of_them or now_s - count.began_s >= INTERVAL_S
        }
        for (name, code), count in over.items():
            if count.unwritten:
                about = {"code": code} if code else {}
                _logger.info("lines_not_logged", of=name, not_logged=count.unwritten, **about)
        for kind in over:
            self._kinds.pop(kind, None)


REPEATED_LINES = RepeatedLines()
"""Those of this process, whose log there is one of."""


def set_up_logs(level: str, log_format: LogFormat) -> None:
    """From now on every line goes through here; libraries are heard from warnings on."""
    if level not in LEVELS:
        raise Invalid(
            f"expected log_level to be one of {', '.join(LEVELS)}, got {level!r}",
            code="invalid_configuration",
        )
    rendering: list[Processor]
    if log_format is LogFormat.JSON:
        rendering = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=_printable_traceback
        )
        rendering = [_as_one_line, console]
    structlog.configure(
        processors=[
            REPEATED_LINES,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # a program with a server in it may set up logs anew
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _as_one_line(logger: Any, method: str, event: EventDict) -> EventDict:
    return {
        name: printable_line(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _printable_traceback(into: TextIO, exc_info: ExcInfo) -> None:
    traceback = StringIO()
    structlog.dev.plain_traceback(traceback, exc_info)
    into.write(printable(traceback.getvalue()).replace("\n", "\n    "))
