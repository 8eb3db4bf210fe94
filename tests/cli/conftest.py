"""A shell in which `flo` can be typed, and a real server that answers it."""

import itertools
import os
import shlex
import time
from typing import NamedTuple

import pytest

from cli.servers import deploy_order, deploy_pay, running_server
from flo.cli.app.main import main
from flo.client.blocking import BlockingFlo

_numbers = itertools.count(1)


class Printed(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def server():
    with running_server() as server:
        yield server


@pytest.fixture
def namespace():
    """Every test has one to itself."""
    return f"test-{next(_numbers)}"


@pytest.fixture
def in_zone(monkeypatch):
    """Puts this machine into a time zone."""

    def put(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _in_utc(in_zone):
    in_zone("UTC")


@pytest.fixture
def environment(server, namespace, monkeypatch):
    for name in ("FLO_PORT", "FLO_DEBUG", "_FLO_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLO_ENDPOINT", server.address)
    monkeypatch.setenv("FLO_NAMESPACE", namespace)


@pytest.fixture
def shell(environment, capsysbinary):
    """Types a line as it stands in the docs; a variable is what the environment says it is."""

    def type_line(line):
        program, *arguments = shlex.split(os.path.expandvars(line))
        assert program == "flo"
        capsysbinary.readouterr()  # what the server in this process has logged
        code = main(arguments)
        out, err = capsysbinary.readouterr()
        return Printed(code, out.decode(errors="surrogateescape"), err.decode())

    return type_line


@pytest.fixture
def client(server, namespace):
    """What the SDK sees of the same namespace."""
    with BlockingFlo(server.address, namespace=namespace) as client:
        yield client


@pytest.fixture
def order(client):
    """A client that has deployed a workflow: charge, wait for an approval, ship."""
    deploy_order(client)
    return client


@pytest.fixture
def pay(client):
    """A client that has deployed a workflow with a plan of two executors."""
    deploy_pay(client)
    return client
