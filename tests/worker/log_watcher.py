"""Waiting for a line in the log of a worker, from any thread."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class LogWatcher(logging.Handler):
    """`heard` holds once a line with this text has been written."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.heard = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self._text in self.lines[-1]:
            self.heard.set()


@contextmanager
def watching_log(text: str) -> Iterator[LogWatcher]:
    watcher = LogWatcher(text)
    logger = logging.getLogger("flo.worker")
    logger.addHandler(watcher)
    try:
        yield watcher
    finally:
        logger.removeHandler(watcher)
