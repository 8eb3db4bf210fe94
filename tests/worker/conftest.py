"""A real server on a free port, and a client that is connected to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flo import Flo
from flo.server.server import Server
from flo.testing.local import local_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with local_server(tmp_path) as server:
        yield server


@pytest.fixture
async def flo(server: Server) -> AsyncIterator[Flo]:
    async with Flo(server.address) as flo:
        yield flo
