import pytest

from flo.log.memory import MemoryLog
from log.suite import LogSuite


class TestMemoryLog(LogSuite):
    @pytest.fixture
    def log(self):
        return MemoryLog()
