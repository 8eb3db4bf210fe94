"""The log of a run as events: a stable name, and fields that a program can read."""

import logging
from typing import Any

LOGGER = logging.getLogger("flo.worker.pipelines")

RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes that a log record has already."""


class EventLog:
    """Writes events with the fields that it is bound to, as text and as attributes of the record:
    `record.event`, `record.node_id`.
    """

    def __init__(self, logger: logging.Logger = LOGGER, **bound: Any) -> None:
        self._logger = logger
        self._bound = bound

    def bind(self, **fields: Any) -> "EventLog":
        return EventLog(self._logger, **{**self._bound, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        values = {**self._bound, **fields}
        text = " ".join(f"{name}={value!r}" for name, value in values.items())
        extra = {name: value for name, value in values.items() if name not in RESERVED}
        self._logger.log(level, "%s %s", event, text, extra={**extra, "event": event})
