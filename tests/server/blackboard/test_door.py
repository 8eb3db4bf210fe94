"""The door as a part of the server: shut unless it is asked for, and the same after a restart."""

import httpx
import pytest

from flo.model.errors import Invalid
from flo.server.config import ServerConfig
from flo.server.server import DOOR_SHUT, Server


def config(tmp_path, **settings):
    return ServerConfig(port=0, http_port=-1, metrics_port=-1, data_dir=tmp_path, **settings)


async def test_it_is_shut_unless_a_port_is_given(tmp_path):
    async with Server(config(tmp_path)) as server:
        assert server.blackboard_port == DOOR_SHUT


async def test_a_worker_is_known_after_a_restart_and_has_its_time_again(tmp_path):
    settings = config(tmp_path, blackboard_port=0)
    async with Server(settings) as server:
        registered = await call(server, "/workers/register", {"version": "0.2.0.beta.7"})
        worker_id = registered.json()["uuid"]
    async with Server(settings) as server:
        async with client(server) as one:
            (known,) = (await one.get("/workers")).json()
        assert (known["uuid"], known["state"]) == (worker_id, "online")
        assert (await call(server, f"/workers/{worker_id}/ping")).status_code == 200


@pytest.mark.parametrize("wrong", [{"blackboard_expiry_ms": 0}, {"blackboard_max_jobs": 0}])
def test_settings_that_cannot_work_are_refused(tmp_path, wrong):
    with pytest.raises(Invalid):
        config(tmp_path, **wrong)


def client(server):
    base_url = f"http://127.0.0.1:{server.blackboard_port}"
    return httpx.AsyncClient(base_url=base_url, verify=False)


async def call(server, path, body=None):
    async with client(server) as one:
        return await one.post(path, json=body) if body else await one.post(path)
