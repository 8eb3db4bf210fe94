"""Structured logs: readable lines for people, JSON lines for programs; both on standard error."""

import logging
import sys

import structlog

from flo.model.errors import Invalid
from flo.server.config import LogFormat

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


def set_up_logs(level: str, log_format: LogFormat) -> None:
    """From now on every line goes through here; libraries are heard from warnings on."""
    if level not in LEVELS:
        raise Invalid(
            f"expected log_level to be one of {', '.join(LEVELS)}, got {level!r}",
            code="invalid_configuration",
        )
    renderer: structlog.typing.Processor
    if log_format is LogFormat.JSON:
        renderer = structlog.processors.JSONRenderer()
        tracebacks = [structlog.processors.dict_tracebacks]
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        tracebacks = []
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *tracebacks,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
