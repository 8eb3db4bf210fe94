"""The HTTP doors."""

import asyncio
import re
import signal
import socket

import httpx
import pytest

from flo.model.errors import Conflict, Unavailable
from flo.model.runs import Assigned, Claim
from flo.server.http.doors import Bounds, MetricsDoor
from flo.server.metrics import Metrics

pytestmark = pytest.mark.asyncio(loop_scope="module")


class PatientEngine:
    """Answers a claim when the test says so, and never before."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.is_withdrawn = asyncio.Event()

    async def ask(self, message, caller=None, keys=None):
        assert isinstance(message, Claim)
        self.asked.set()
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.is_withdrawn.set()
            raise
        return Assigned()


ROUTES = {
    ("/health", "GET"),
    ("/ready", "GET"),
    ("/metrics", "GET"),
    ("/openapi.json", "GET"),
    ("/docs", "GET"),
    ("/api/v1/server", "GET"),
    ("/api/v1/namespaces", "GET"),
    ("/api/v1/namespaces", "POST"),
    ("/api/v1/namespaces/{name}", "GET"),
    ("/api/v1/namespaces/{name}", "DELETE"),
    ("/api/v1/actions", "GET"),
    ("/api/v1/actions", "POST"),
    ("/api/v1/actions/{name}", "GET"),
    ("/api/v1/actions/{name}", "PUT"),
    ("/api/v1/actions/{name}", "DELETE"),
    ("/api/v1/actions/{name}/invoke", "POST"),
    ("/api/v1/actions/{name}/runs", "GET"),
    ("/api/v1/runs", "GET"),
    ("/api/v1/actions/{name}/dlq", "GET"),
    ("/api/v1/actions/{name}/dlq", "DELETE"),
    ("/api/v1/actions/{name}/dlq/requeue", "POST"),
    ("/api/v1/actions/{name}/dlq/{run_id}", "DELETE"),
    ("/api/v1/actions/{name}/dlq/{run_id}/requeue", "POST"),
    ("/api/v1/runs/{run_id}", "GET"),
    ("/api/v1/runs/{run_id}/cancel", "POST"),
    ("/api/v1/runs/{run_id}/explain", "GET"),
    ("/api/v1/workers", "GET"),
    ("/api/v1/workers", "POST"),
    ("/api/v1/workers/{worker_id}", "GET"),
    ("/api/v1/workers/{worker_id}", "DELETE"),
    ("/api/v1/workers/{worker_id}/heartbeat", "POST"),
    ("/api/v1/workers/{worker_id}/drain", "POST"),
    ("/api/v1/workers/{worker_id}/await", "POST"),
    ("/api/v1/workers/{worker_id}/notifications", "GET"),
    ("/api/v1/tasks/{task_id}/complete", "POST"),
    ("/api/v1/tasks/{task_id}/fail", "POST"),
    ("/api/v1/tasks/{task_id}/touch", "POST"),
    ("/api/v1/streams", "GET"),
    ("/api/v1/streams", "POST"),
    ("/api/v1/streams/{name}", "GET"),
    ("/api/v1/streams/{name}", "PUT"),
    ("/api/v1/streams/{name}", "DELETE"),
    ("/api/v1/streams/{name}/records", "GET"),
    ("/api/v1/streams/{name}/records", "POST"),
    ("/api/v1/streams/{name}/trim", "POST"),
    ("/api/v1/streams/{name}/groups", "GET"),
    ("/api/v1/streams/{name}/groups/{group}", "GET"),
    ("/api/v1/streams/{name}/groups/{group}", "POST"),
    ("/api/v1/streams/{name}/groups/{group}", "DELETE"),
    ("/api/v1/streams/{name}/groups/{group}/join", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/leave", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/read", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/ack", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/nack", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/touch", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/claim", "POST"),
    ("/api/v1/streams/{name}/groups/{group}/pending", "GET"),
    ("/api/v1/streams/{name}/groups/{group}/dlq", "GET"),
    ("/api/v1/streams/{name}/groups/{group}/dlq", "DELETE"),
    ("/api/v1/streams/{name}/groups/{group}/dlq/requeue", "POST"),
    ("/api/v1/kv", "GET"),
    ("/api/v1/kv/{key}", "GET"),
    ("/api/v1/kv/{key}", "PUT"),
    ("/api/v1/kv/{key}", "DELETE"),
    ("/api/v1/kv/{key}/history", "GET"),
    ("/api/v1/kv/{key}/increment", "POST"),
    ("/api/v1/kv/{key}/expire", "POST"),
    ("/api/v1/kv/{key}/json", "GET"),
    ("/api/v1/kv/{key}/json", "PUT"),
    ("/api/v1/kv/{key}/json", "DELETE"),
    ("/api/v1/kv-get", "POST"),
    ("/api/v1/kv-transactions", "POST"),
}

ROUTES_OF_PIPELINES = {
    ("/api/v1/pipelines", "POST"),
    ("/api/v1/pipelines/{id}", "GET"),
    ("/api/v1/pipelines", "GET"),
    ("/api/v1/pipelines/{id}/end", "GET"),
    ("/api/v1/pipelines/{id}/cancel", "POST"),
    ("/api/v1/pipelines/{id}/retry", "POST"),
    ("/api/v1/pipelines/{id}/artifacts", "GET"),
    ("/api/v1/pipelines/{id}/events", "GET"),
    ("/api/v1/pipeline-graphs/{name}", "PUT"),
    ("/api/v1/pipeline-graphs/{name}", "GET"),
    ("/api/v1/pipeline-graphs", "GET"),
    ("/api/v1/pipeline-graphs/{name}", "DELETE"),
    ("/api/v1/pipeline-settings", "PUT"),
    ("/api/v1/pipeline-settings", "GET"),
    ("/api/v1/pipelines/{id}/functions/{function}", "POST"),
    ("/api/v1/pipelines/{id}/patch", "POST"),
    ("/api/v1/workers/{worker_id}/await-nodes", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/heartbeat", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/watch", "GET"),
    ("/api/v1/pipelines/{id}/nodes/{node}/input", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/batches", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/input/finish", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/complete", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/fail", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/release", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/artifacts", "POST"),
    ("/api/v1/pipelines/{id}/nodes/{node}/events", "POST"),
}

ROUTES_OF_BLOCKS = {
    ("/api/v1/blocks", "POST"),
    ("/api/v1/blocks", "GET"),
    ("/api/v1/blocks/{block}", "GET"),
    ("/api/v1/blocks/{block}", "DELETE"),
    ("/api/v1/jobs", "GET"),
    ("/api/v1/jobs/{job_id}", "GET"),
    ("/api/v1/locks", "GET"),
    ("/api/v1/locks/release", "POST"),
    ("/api/v1/remediation/{run_id}", "GET"),
    ("/api/v1/remediation/{run_id}/rollback", "POST"),
    ("/api/v1/remediation/{run_id}/resolve", "POST"),
}

ROUTES_OF_WORKFLOWS = {
    ("/api/v1/definitions/{definition}", "GET"),
    ("/api/v1/workflows", "GET"),
    ("/api/v1/workflows", "POST"),
    ("/api/v1/workflows/validate", "POST"),
    ("/api/v1/workflows/{name}", "GET"),
    ("/api/v1/workflows/{name}", "DELETE"),
    ("/api/v1/workflows/{name}/enable", "PUT"),
    ("/api/v1/workflows/{name}/disable", "PUT"),
    ("/api/v1/workflows/{name}/start", "POST"),
    ("/api/v1/workflows/{name}/plans/{plan}", "GET"),
    ("/api/v1/workflow-schema.json", "GET"),
    ("/api/v1/workflow-runs", "GET"),
    ("/api/v1/workflow-runs/{run_id}", "GET"),
    ("/api/v1/workflow-runs/{run_id}/history", "GET"),
    ("/api/v1/workflow-runs/{run_id}/steps", "GET"),
    ("/api/v1/workflow-runs/{run_id}/explain", "GET"),
    ("/api/v1/workflow-runs/{run_id}/signal", "POST"),
    ("/api/v1/workflow-runs/{run_id}/cancel", "POST"),
    ("/api/v1/workflow-runs/{run_id}/pause", "POST"),
    ("/api/v1/workflow-runs/{run_id}/resume", "POST"),
    ("/api/v1/workflow-runs/{run_id}/rerun", "POST"),
    ("/api/v1/audit", "GET"),
    ("/api/v1/secrets", "GET"),
    ("/api/v1/secrets/rotate-key", "POST"),
    ("/api/v1/secrets/{name}", "PUT"),
    ("/api/v1/secrets/{name}", "DELETE"),
    ("/api/v1/schedules", "GET"),
    ("/api/v1/schedules/{workflow}", "GET"),
    ("/api/v1/schedules/{workflow}/pause", "PUT"),
    ("/api/v1/schedules/{workflow}/resume", "PUT"),
    ("/api/v1/schedules/{workflow}/run-now", "POST"),
    ("/api/v1/schedules/{workflow}/skip", "POST"),
    ("/api/v1/events/{name}", "POST"),
}

AWAIT = ("/workers/anna/await", {"actions": ["send-mail"]})


async def test_a_server_that_lives_says_so(http):
    answer = await http.client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_server_is_ready_or_says_that_it_is_not(http):
    assert (await http.client.get("/ready")).json() == {"status": "ready"}
    http.problem = Unavailable("full", code="disk_full", details={"retry_after_ms": 1_500})
    answer = await http.client.get("/ready")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    error = answer.json()["error"]
    assert (error["code"], error["details"]["reason"]) == ("not_ready", "disk_full")
    assert error["message"] == "the server is not ready to take requests: full"
    answer = await http.client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "degraded", "reason": "full"})


async def test_a_server_tells_what_it_is(http):
    http.clock.advance(90_000)
    assert await http.get("/server") == (
        200,
        {
            "version": "1.2.3",
            "started_at": http.clock.now_ms() - 90_000,
            "uptime_ms": 90_000,
            "store": "memory",
            "durability": "sync",
            "address": "127.0.0.1:9000",
            "data_dir": None,
            "ready": True,
            "counters": {"pending_runs": 4},
        },
    )


async def test_every_route_is_described_and_every_description_has_a_route(http):
    document = (await http.client.get("/openapi.json")).json()
    described = {
        (path, method.upper())
        for path, operations in document["paths"].items()
        for method in operations
    }
    routed = {
        (re.sub(r"{(\w+):str}", r"{\1}", route.path), method)
        for route in http.door.app.routes
        for method in route.methods - {"OPTIONS"}
    }
    assert document["openapi"] == "3.1.0"
    theirs = ROUTES_OF_PIPELINES | ROUTES_OF_BLOCKS | ROUTES_OF_WORKFLOWS
    assert described == routed == ROUTES | theirs


async def test_everything_in_the_description_is_explained_and_points_to_something(http):
    document = (await http.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    references = re.findall(r'"\$ref":"#/components/schemas/(\w+)"', (await openapi_text(http)))
    assert set(references) <= schemas.keys()
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["description"]
            assert all(parameter["description"] for parameter in operation.get("parameters", ()))


async def test_the_description_says_what_a_body_may_hold(http):
    document = (await http.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    assert schemas["FailBody"]["additionalProperties"] is False
    assert schemas["FailBody"]["required"] == ["worker_id"]
    assert "additionalProperties" not in schemas["RunJson"]
    invoke = document["paths"]["/api/v1/actions/{name}/invoke"]["post"]
    assert invoke["requestBody"]["content"].keys() == {"application/json", "*/*"}
    statuses = {"200", "202", "400", "404", "409", "413", "429", "500", "503"}
    assert invoke["responses"].keys() == statuses


async def test_the_description_says_which_bodies_may_be_left_out(http):
    document = (await http.client.get("/openapi.json")).json()
    required = {
        operation["operationId"]: operation["requestBody"].get("required", False)
        for operations in document["paths"].values()
        for operation in operations.values()
        if "requestBody" in operation
    }
    of_workflows = {name: required.pop(name) for name in list(required) if "workflow" in name}
    assert of_workflows == {
        "create_workflow": True,
        "validate_workflow": True,
        "start_workflow": False,
        "signal_workflow_run": True,
        "cancel_workflow_run": False,
        "rerun_workflow_run": False,
    }
    may_be_left_out = {name for name, is_required in required.items() if not is_required}
    assert may_be_left_out == {
        "cancel_pipeline",
        "retry_pipeline",
        "call_pipeline_function",
        "invoke_action",
        "cancel_run",
        "heartbeat_worker",
        "create_group",
        "put_key",
        "increment_key",
    }


async def test_whatever_takes_a_body_says_that_it_may_be_too_large(http):
    document = (await http.client.get("/openapi.json")).json()
    for operations in document["paths"].values():
        for operation in operations.values():
            if "requestBody" in operation:
                assert "413" in operation["responses"], operation["operationId"]


async def test_the_description_says_which_settings_can_be_taken_away(http):
    document = (await http.client.get("/openapi.json")).json()
    settings = document["components"]["schemas"]["SettingsBody"]
    assert settings["required"] == []
    assert {
        name for name, schema in settings["properties"].items() if {"type": "null"} in kinds(schema)
    } == {"input_schema", "output_schema", "limits"}


async def test_the_description_tells_the_changes_of_a_transaction_apart(http):
    document = (await http.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    changes = schemas["TransactionBody"]["properties"]["changes"]["items"]
    assert changes["discriminator"]["propertyName"] == "type"
    assert changes["discriminator"]["mapping"].keys() == {"put", "delete", "increment"}
    assert schemas["PutBody"]["required"] == ["type", "key", "value"]
    assert schemas["PutBody"]["additionalProperties"] is False


async def test_the_description_says_that_a_record_comes_as_an_object(http):
    document = (await http.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    for name in (
        "RecordJson",
        "DeliveredJson",
        "DeadRecordJson",
        "GroupSettingsJson",
        "StreamJson",
    ):
        assert schemas[name]["type"] == "object"
    assert "StreamRecord" not in schemas
    assert "GroupSettings" not in schemas


async def test_the_description_says_how_a_key_is_compared_and_set(http):
    document = (await http.client.get("/openapi.json")).json()
    put_key = document["paths"]["/api/v1/kv/{key}"]["put"]
    headers = {one["name"] for one in put_key["parameters"] if one["in"] == "header"}
    assert headers == {"If-Match", "If-None-Match", "Idempotency-Key"}
    assert put_key["requestBody"]["content"].keys() == {"application/json", "*/*"}
    assert "409" in put_key["responses"]
    assert put_key["responses"]["200"]["headers"]["ETag"]["schema"] == {"type": "string"}


async def test_the_description_says_what_a_payload_that_its_schema_refuses_is_answered(http):
    document = (await http.client.get("/openapi.json")).json()
    assert (
        "400, with the code `input_invalid` or `output_invalid`"
        in (document["info"]["description"])
    )


async def test_the_page_shows_every_route_and_loads_nothing(http):
    answer = await http.client.get("/docs")
    document = (await http.client.get("/openapi.json")).json()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"src=|https?://|<script|@import|url\(", answer.text)
    for path in document["paths"]:
        assert f"<code>{path}</code>" in answer.text
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in answer.text


async def test_what_is_counted_is_shown(open_http):
    async with open_http() as http:
        await http.post("/actions", {"name": "send-mail"})
        await http.get("/runs/send-mail-1")
        answer = await http.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert (
        'flo_http_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="404"} 1.0'
        in lines
    )
    assert "flo_events_total 2.0" in lines
    assert "flo_http_connections 1.0" in lines


async def test_names_that_clients_make_up_are_not_counted_by_name(http):
    await http.client.get("/made/up")
    shown = http.metrics.exposition().decode()
    assert 'route="none",status="404"' in shown
    assert "/made" not in shown


async def test_the_metrics_have_a_door_of_their_own():
    metrics = Metrics()
    metrics.refused("lease_lost")
    door = MetricsDoor(metrics, "127.0.0.1", 0)
    await door.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{door.port}") as client:
        assert 'flo_refusals_total{code="lease_lost"} 1.0' in (await client.get("/metrics")).text
        for path in ("/health", "/api/v1/actions", "/schema"):
            answer = await client.get(path)
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "no_such_route"
    await door.stop()


async def test_a_port_that_is_taken_is_a_clear_error(http):
    second = MetricsDoor(Metrics(), "127.0.0.1", http.door.port)
    with pytest.raises(Conflict, match=f"cannot listen on 127.0.0.1:{http.door.port}") as caught:
        await second.start()
    assert caught.value.code == "address_in_use"


async def test_a_host_that_is_not_ours_is_a_clear_error():
    with pytest.raises(Conflict, match=r"cannot listen on 192\.0\.2\.1:0") as caught:
        await MetricsDoor(Metrics(), "192.0.2.1", 0).start()
    assert caught.value.code == "cannot_listen"


async def test_a_door_may_be_stopped_twice_or_before_it_started():
    door = MetricsDoor(Metrics(), "127.0.0.1", 0)
    await door.stop()
    await door.start()
    await door.stop()
    await door.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", door.port))


async def test_a_door_leaves_the_signals_alone(open_http):
    watched = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in watched]
    async with open_http():
        assert [signal.getsignal(number) for number in watched] == before


async def test_whoever_waits_when_the_door_closes_is_told_to_try_again(open_http):
    engine = PatientEngine()
    async with open_http(engine=engine) as http:
        waiting = asyncio.create_task(http.post(*AWAIT))
        await engine.asked.wait()
        await http.door.stop()
        status, body = await waiting
    assert status == 503
    assert body["error"]["code"] == "server_stopping"
    assert engine.is_withdrawn.is_set()


async def test_a_wait_is_given_up_when_its_client_leaves(open_http):
    engine = PatientEngine()
    async with open_http(engine=engine) as http:
        waiting = asyncio.create_task(http.post(*AWAIT))
        await engine.asked.wait()
        waiting.cancel()
        await http.until(engine.is_withdrawn.is_set)


async def test_what_has_begun_is_finished_before_the_door_closes(open_http):
    engine = SlowEngine()
    async with open_http(engine=engine) as http:
        asking = asyncio.create_task(http.get("/actions"))
        await engine.asked.wait()
        stopping = asyncio.create_task(http.door.stop())
        await http.until(lambda: not http.door.is_open)
        engine.answer.set()
        await stopping
        assert (await asking)[0] == 409


async def test_whoever_takes_too_long_is_hung_up_on(open_http, caplog):
    engine = SlowEngine()
    async with open_http(Bounds(stop_seconds_max=0), engine) as http:
        asking = asyncio.create_task(http.get("/actions"))
        await engine.asked.wait()
        await http.door.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
    assert not caplog.records


class SlowEngine:
    """Refuses when the test says so, and never before."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def ask(self, message, caller=None, keys=None):
        self.asked.set()
        await self.answer.wait()
        raise Conflict("too late")


def kinds(schema):
    return schema.get("anyOf", [schema])


async def openapi_text(http):
    return (await http.client.get("/openapi.json")).text
