"""How every test is run: the same values each time, signals that are heard, logs of its own."""

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("flo", deadline=None, derandomize=True, database=None)
settings.load_profile("flo")

# A job started in the background ignores SIGINT and so does what it starts; with a handler here,
# the processes that tests start begin with the default one.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def logs_of_its_own() -> Iterator[None]:
    """A server in the tests' own process may log to where only the tests of that file look."""
    yield
    structlog.reset_defaults()
