from pathlib import Path

import pytest

from flo.cli.server.banner import banner
from flo.server.config import Durability, ServerConfig
from flo.server.server import Server


def server(*, port=9_000, http_port=9_002, metrics_port=9_001, **settings):
    made = Server(ServerConfig(data_dir=Path("/srv/flo"), **settings))
    made.port, made.http_port, made.metrics_port = port, http_port, metrics_port
    return made


def test_a_server_says_where_it_is_what_it_keeps_and_what_comes_next():
    assert banner(server()).splitlines() == [
        "  Clients, workers: 127.0.0.1:9000",
        "  HTTP API:         http://127.0.0.1:9002/docs",
        "  Metrics:          http://127.0.0.1:9001/metrics",
        "  Data:             /srv/flo",
        "  Durability:       sync: acknowledged means on the disk",
        "  Next:             flo worker run FILE.py    (in another terminal)",
        "  Stop:             Ctrl-C",
    ]


def test_the_next_command_finds_a_server_on_another_port():
    assert "flo worker run FILE.py --port 9100" in banner(server(port=9_100))


@pytest.mark.parametrize("durability", Durability)
def test_every_durability_says_what_it_means(durability):
    assert f"{durability}: " in banner(server(durability=durability))


def test_what_is_shut_or_in_memory_is_not_shown_as_a_place():
    said = banner(server(port=-1, http_port=-1, metrics_port=-1, durability=Durability.EPHEMERAL))

    assert "Data:       in memory" in said
    assert "http" not in said
    assert "Next" not in said
