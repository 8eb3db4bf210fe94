"""Structured logs: events with fields, which are also attributes of the record.

The tree `flowkit` is silent until a program configures logging, or calls `configure_from_env`.
"""

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

ROOT = "flowkit"
RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
OPTIONS = ("exc_info", "stack_info", "stacklevel", "extra")

_context: ContextVar[dict[str, Any]] = ContextVar("flowkit_log_context", default={})  # noqa: B039
_warned: set[str] = set()
_warned_lock = threading.Lock()

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class FieldLogger(logging.LoggerAdapter[logging.Logger]):
    """Takes any field as a keyword: log.info("text", event="x", task_id="t")."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        given = {**_context.get(), **(options.pop("extra", None) or {}), **kwargs}
        kwargs.clear()
        kwargs.update(options)
        kwargs["extra"] = {name: value for name, value in given.items() if name not in RESERVED}
        kwargs["extra"]["_fields"] = tuple(given)
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            msg, kwargs = self.process(msg, kwargs)  # type: ignore[assignment]
            self.logger.log(level, msg, *args, **kwargs)


def get_logger(name: str) -> FieldLogger:
    """The logger of this name, in the tree of FlowKit."""
    full = name if name == ROOT or name.startswith(f"{ROOT}.") else f"{ROOT}.{name}"
    return FieldLogger(logging.getLogger(full), {})


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Every line that is logged in here has these fields."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def bind_context(**fields: Any) -> None:
    """Every line that is logged from now on in this task has these fields."""
    _context.set({**_context.get(), **fields})


def warn_once(
    logger: FieldLogger, *, code: str, msg: str, level: int = logging.WARNING, **fields: Any
) -> None:
    """Log this once in the life of the process."""
    with _warned_lock:
        if code in _warned:
            return
        _warned.add(code)
    logger.log(level, msg, code=code, **fields)


@contextmanager
def swallow(
    *,
    logger: FieldLogger,
    code: str,
    msg: str = "suppressed",
    level: int = logging.WARNING,
    expected: bool = False,
    reraise: bool = False,
    **fields: Any,
) -> Iterator[None]:
    """Log an exception instead of letting it pass."""
    try:
        yield
    except Exception:
        logger.log(level, msg, code=code, expected=expected, exc_info=True, **fields)
        if reraise:
            raise


class JsonFormatter(logging.Formatter):
    def __init__(self, *, pretty: bool = False, stack: bool = False) -> None:
        super().__init__()
        self._indent = 2 if pretty else None
        self._stack = stack

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in RESERVED and not name.startswith("_"):
                line[name] = value
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = {"type": type(error).__name__, "message": str(error)}
            if self._stack:
                line["error"]["stack"] = "".join(traceback.format_exception(error))
        return json.dumps(line, ensure_ascii=False, default=str, indent=self._indent)


def configure_from_env() -> None:
    """Write JSON lines if FLOWKIT_LOG_STDOUT asks for it."""
    if not _is_on("FLOWKIT_LOG_STDOUT"):
        return
    logger = logging.getLogger(ROOT)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        JsonFormatter(pretty=_is_on("FLOWKIT_LOG_PRETTY"), stack=_is_on("FLOWKIT_LOG_STACK"))
    )
    logger.addHandler(handler)
    logger.setLevel(os.environ.get("FLOWKIT_LOG_LEVEL", "DEBUG").upper())


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in ("1", "true", "yes", "on")
