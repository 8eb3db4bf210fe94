import logging
from collections.abc import Iterator

import pytest

from flo.model.errors import Invalid, Unavailable
from flo.worker.logs import check_level, first_line, log_trouble, set_up_logs


@pytest.fixture
def flo_logger() -> Iterator[logging.Logger]:
    """The logger of the package, as it was before the test when the test is over."""
    logger = logging.getLogger("flo")
    before = (logger.level, logger.handlers[:], logger.propagate)
    logger.handlers.clear()  # what other packages have put there
    yield logger
    logger.level, logger.handlers[:], logger.propagate = before
    logger.setLevel(logger.level)


def test_an_application_without_logging_gets_lines_on_stderr(flo_logger: logging.Logger) -> None:
    flo_logger.propagate = False  # what the root has is that of the tests
    set_up_logs(None)
    set_up_logs(None)

    assert len(flo_logger.handlers) == 1
    assert flo_logger.level == logging.INFO


def test_an_application_that_has_configured_logging_keeps_it(flo_logger: logging.Logger) -> None:
    handler = logging.NullHandler()
    flo_logger.addHandler(handler)
    set_up_logs(None)

    assert flo_logger.handlers == [handler]
    assert flo_logger.level == logging.NOTSET


def test_a_level_that_is_given_counts_in_any_case(flo_logger: logging.Logger) -> None:
    flo_logger.addHandler(logging.NullHandler())
    set_up_logs("error")

    assert flo_logger.level == logging.ERROR


def test_a_level_has_a_name() -> None:
    check_level(None)
    check_level("critical")

    with pytest.raises(Invalid, match=r"expected log_level as one of debug, .*, got 'loud'"):
        check_level("loud")


@pytest.mark.parametrize(
    ("code", "level"), [("unreachable", "DEBUG"), ("connection_lost", "DEBUG"), ("busy", "WARNING")]
)
def test_what_the_client_has_said_is_not_said_again(
    code: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "flo.worker"):
        log_trouble(Unavailable("no", code=code), "no %s", "heartbeat")

    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        (level, "no heartbeat")
    ]


def test_what_was_raised_fits_a_line() -> None:
    assert first_line(ValueError("no stock\nof this")) == "ValueError: no stock"
