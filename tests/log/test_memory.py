import pytest

from flo.log.memory import MemoryLog
from flo.testing.log_suite import LogSuite


class TestMemoryLog(LogSuite):
    @pytest.fixture
    def log(self):
        return MemoryLog()
