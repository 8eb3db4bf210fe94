"""The log of a worker: how much of it, and where to if the application has not said."""

import logging

from flo.core.log_lines import PrintableFormatter
from flo.model.errors import FloError, Invalid
from flo.worker.outcome import outcome_of_error

FORMAT = "%(asctime)s %(levelname)-7s %(name)s  %(message)s"
LEVELS = ("debug", "info", "warning", "error", "critical")
LEVEL_DEFAULT = "info"

TOLD_BY_THE_CLIENT = frozenset({"unreachable", "connection_lost", "server_stopping", "closed"})
"""Codes of errors about the connection, each of which has a line of its own already."""

_logger = logging.getLogger("flo.worker")


def check_level(level: str | None) -> None:
    if level is not None and level not in LEVELS:
        raise Invalid(f"expected log_level as one of {', '.join(LEVELS)}, got {level!r}")


def set_up_logs(level: str | None) -> None:
    """Write to stderr, unless the application has configured its logging.

    A level that is given counts in both cases.
    """
    logger = logging.getLogger("flo")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(PrintableFormatter(FORMAT))
        logger.addHandler(handler)
        level = level or LEVEL_DEFAULT
    if level is not None:
        logger.setLevel(level.upper())


def log_trouble(error: FloError, message: str, *values: object) -> None:
    """A call has failed, and is made again; trouble with the connection has a line already."""
    level = logging.DEBUG if error.code in TOLD_BY_THE_CLIENT else logging.WARNING
    _logger.log(level, message, *values)


def first_line(error: BaseException) -> str:
    """What was raised, in one line."""
    return outcome_of_error(error).error.partition("\n")[0]
