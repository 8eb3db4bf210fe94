"""One trace from the caller through queue, attempt and handler, on a real server."""

import asyncio
import subprocess
import sys

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flo import ActionWorker, Flo, NonRetryableError, disable_tracing, enable_tracing
from flo.client.session.tracing import SWITCH, calling
from flo.model.errors import Invalid
from flo.model.runs import Invoke
from flo.server.config import Durability
from flo.testing.local import local_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ORDER = """
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge"
  transitions: {success: ship, failure: flo.Failed}
steps:
  ship:
    run: "@actions/ship"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


class Spans:
    """What was exported, and a tracer for the program that calls."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("program")

    def all(self):
        return self.exporter.get_finished_spans()

    def one(self, name):
        (found,) = [span for span in self.all() if span.name == name]
        return found

    def parent_of(self, name):
        parent = self.one(name).parent
        return next(span.name for span in self.all() if span.context.span_id == parent.span_id)


@pytest.fixture
def spans():
    spans = Spans()
    enable_tracing(spans.provider)
    yield spans
    disable_tracing()


@pytest.fixture
async def server(tmp_path):
    async with local_server(tmp_path, durability=Durability.EPHEMERAL) as server:
        yield server


@pytest.fixture
async def flo(server):
    async with Flo(server.address) as flo:
        yield flo


@pytest.fixture
async def shop(flo, spans):
    """A worker whose handlers trace something themselves."""
    worker = ActionWorker(flo, worker_id="anna")

    @worker.action("charge")
    async def charge(ctx):
        with spans.tracer.start_as_current_span("ask the bank"):
            return {"charged": 7}

    @worker.action("ship")
    def ship(ctx):
        with spans.tracer.start_as_current_span("print the label"):
            return {}

    @worker.action("refuse")
    async def refuse(ctx):
        raise NonRetryableError("the card was refused", code="card_refused")

    for name in ("charge", "ship", "refuse"):
        await flo.actions.register(name)
    serving = asyncio.ensure_future(worker.serve())
    yield worker
    worker.stop()
    await serving


@pytest.mark.usefixtures("shop")
async def test_a_run_is_one_trace_from_the_caller_to_the_handler(flo, spans):
    with spans.tracer.start_as_current_span("checkout"):
        invocation = await flo.actions.invoke("charge", {"order": 1})
    await invocation.result()

    assert len({span.context.trace_id for span in spans.all()}) == 1
    assert {span.name: spans.parent_of(span.name) for span in spans.all() if span.parent} == {
        "invoke charge": "checkout",
        "queue charge": "invoke charge",
        "attempt charge": "invoke charge",
        "handler charge": "attempt charge",
        "ask the bank": "handler charge",
    }
    attempt = spans.one("attempt charge")
    assert attempt.attributes["flo.run_id"] == invocation.run_id
    assert (attempt.attributes["flo.attempt"], attempt.attributes["flo.worker_id"]) == (1, "anna")
    assert spans.one("queue charge").start_time <= spans.one("queue charge").end_time


@pytest.mark.usefixtures("shop")
async def test_the_steps_of_a_workflow_are_in_the_trace_of_who_started_it(flo, spans):
    await flo.workflows.create(ORDER)
    with spans.tracer.start_as_current_span("checkout"):
        run = await flo.workflows.start("order")
    await run.result()

    assert len({span.context.trace_id for span in spans.all()}) == 1
    assert spans.parent_of("attempt charge") == spans.parent_of("attempt ship") == "start order"
    assert spans.parent_of("print the label") == "handler ship"
    step = spans.one("attempt ship").attributes
    assert (step["flo.step"], step["flo.workflow_run_id"]) == ("ship", run.run_id)


@pytest.mark.usefixtures("shop")
async def test_a_failure_is_seen_in_its_spans(flo, spans):
    invocation = await flo.actions.invoke("refuse")
    await invocation.wait()

    for name in ("attempt refuse", "handler refuse"):
        span = spans.one(name)
        assert span.status.status_code is trace.StatusCode.ERROR
        assert span.attributes["flo.error_code"] == "card_refused"


@pytest.mark.usefixtures("shop")
async def test_a_caller_over_http_has_its_trace_go_on(server, flo, spans):
    url = f"{server.http_url}/api/v1/actions/charge/invoke?wait_ms=10000"
    async with httpx.AsyncClient() as client:
        for traceparent in (PARENT, "nonsense"):
            answer = await client.post(url, json={}, headers={"traceparent": traceparent})
            assert answer.json()["status"] == "completed"

    attempt = spans.one("attempt charge")
    assert f"{attempt.context.trace_id:032x}" == PARENT.split("-")[1]


async def test_a_context_that_is_none_is_refused(flo):
    with pytest.raises(Invalid, match="W3C traceparent"):
        await flo.call(Invoke(action="charge", trace="nonsense"))


@pytest.mark.usefixtures("shop")
async def test_without_tracing_there_are_no_spans_and_nothing_travels(flo, spans):
    disable_tracing()
    await (await flo.actions.invoke("refuse")).wait()

    assert spans.all() == ()
    assert SWITCH.tracing is None
    assert calling("invoke", "charge") is calling("start", "order")


def test_without_tracing_nothing_of_it_is_imported():
    program = (
        "import sys; from flo import Flo, ActionWorker, BlockingFlo; "
        "import flo.client.session.tracing; "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == "[]\n", done.stderr
