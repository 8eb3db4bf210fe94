"""What many acceptance tests are given: a server of their own, and a client of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from flo import Flo
from flo.testing.process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest_asyncio.fixture
async def flo(server: ServerProcess) -> AsyncIterator[Flo]:
    async with Flo(server.address) as flo:
        yield flo
