import logging
from contextlib import suppress

import pytest
import structlog

from flo.model.errors import Invalid
from flo.server.config import LogFormat
from flo.server.logs import INTERVAL_S, LINES_OF_A_KIND_MAX, RepeatedLines, set_up_logs

HOSTILE = "x\n2026-01-01 [info] all is well\x1b[2J\r\u202e"


@pytest.fixture
def written(capsys):
    """The lines that were logged; afterwards everything is as before."""
    before = structlog.get_config()
    yield lambda: capsys.readouterr().err.splitlines()
    structlog.configure(**before)
    logging.basicConfig(force=True)


def test_an_unknown_level_is_refused():
    with pytest.raises(Invalid, match="expected log_level to be one of debug"):
        set_up_logs("loud", LogFormat.JSON)


@pytest.mark.parametrize("form", LogFormat)
def test_text_of_others_stays_in_its_line(written, form):
    set_up_logs("info", form)

    logger = structlog.get_logger("flo.test")
    logger.info("guest_log", message=HOSTILE)
    logger.info(HOSTILE)

    lines = written()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert all("all is well" in line for line in lines)


def test_text_of_others_in_a_traceback_is_indented(written):
    set_up_logs("info", LogFormat.CONSOLE)

    structlog.get_logger("flo.test").error("request_failed", exc_info=ValueError(HOSTILE))

    first, *others = written()
    assert "request_failed" in first
    assert all(line.isprintable() and line.startswith("    ") for line in others)


# Lines of which there are too many


class Log:
    """What gets past the filter, and a clock that is moved by hand."""

    def __init__(self):
        self.now_s = 0.0
        self.filter = RepeatedLines(lambda: self.now_s)
        self.lines = []

    def write(self, event, **fields):
        with suppress(structlog.DropEvent):
            self.lines.append(self.filter(None, "info", {"event": event, **fields}))

    def told(self, **how):
        with structlog.testing.capture_logs() as lines:
            self.filter.tell(**how)
        return [{name: line[name] for name in line if name != "log_level"} for line in lines]


def test_of_many_lines_of_one_kind_a_few_are_written_and_the_others_counted():
    log = Log()
    for number in range(2_574):
        log.write("connection_refused", code="corrupt", reason=str(number))

    assert [line["reason"] for line in log.lines] == list("01234")
    assert log.told() == []

    log.now_s += INTERVAL_S
    left_out = {"of": "connection_refused", "code": "corrupt", "not_logged": 2_569}
    assert log.told() == [{"event": "lines_not_logged", **left_out}]
    assert log.told(all_of_them=True) == []


def test_the_next_line_of_the_kind_says_it_if_nothing_has_before():
    log = Log()
    for _ in range(8):
        log.write("x")
    log.now_s += INTERVAL_S

    log.write("x")

    assert log.lines[-1] == {"event": "x", "not_logged": 3}


def test_at_the_end_all_is_told():
    log = Log()
    for _ in range(7):
        log.write("x")

    assert log.told(all_of_them=True) == [{"event": "lines_not_logged", "of": "x", "not_logged": 2}]


def test_other_kinds_are_not_concerned():
    log = Log()
    for _ in range(9):
        log.write("x", code="a")

    log.write("x", code="b")
    log.write("y")

    assert len(log.lines) == LINES_OF_A_KIND_MAX + 2


def test_lines_that_come_now_and_then_are_all_written():
    log = Log()
    for _ in range(100):
        log.write("snapshot_taken")
        log.now_s += INTERVAL_S / LINES_OF_A_KIND_MAX

    assert len(log.lines) == 100


def test_every_line_of_a_guest_is_written():
    log = Log()
    for _ in range(9):
        log.write("guest_log", message="x")

    assert len(log.lines) == 9


def test_a_logger_that_was_used_follows_when_logs_are_set_up_anew(written):
    logger = structlog.get_logger("flo.kept")
    set_up_logs("info", LogFormat.JSON)
    logger.info("before")

    set_up_logs("error", LogFormat.JSON)
    logger.info("after")

    assert [("before" in line, "after" in line) for line in written()] == [(True, False)]
