"""Traces by OpenTelemetry, off unless a program asks for them.

    caller ── invoke ─┬─ queue            from ready to claimed
                      └─ attempt ── handler

The context of the span that invokes travels with the run (W3C `traceparent`), and from a workflow
run to the runs of its steps. Until `enable_tracing` is called nothing of OpenTelemetry is imported.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from flo.model.errors import needs_extra
from flo.model.runs import Task

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

TRACEPARENT = "traceparent"
NAME = "flo"


class Calling:
    """A call that makes a run: what travels with it, and where its id is noted."""

    __slots__ = ("_span", "trace")

    def __init__(self, span: "Span | None" = None, trace: str | None = None) -> None:
        self._span = span
        self.trace = trace

    def made(self, run_id: str) -> None:
        if self._span is not None:
            self._span.set_attribute("flo.run_id", run_id)


class Tracing:
    """Makes the spans of callers and workers."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def calling(self, verb: str, name: str) -> Iterator[Calling]:
        kind = self._api.SpanKind.PRODUCER
        with self._tracer.start_as_current_span(f"{verb} {name}", kind=kind) as span:
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier)
            yield Calling(span, carrier.get(TRACEPARENT))

    @contextmanager
    def attempt(self, task: Task, worker_id: str, now_ms: int) -> Iterator["Span"]:
        """The span of an attempt, and beside it that of the time in the queue."""
        assert task.trace is not None
        parent = self._propagator.extract({TRACEPARENT: task.trace.parent})
        attributes = _attributes(task, worker_id)
        waited = self._tracer.start_span(
            f"queue {task.task_type}",
            context=parent,
            attributes=attributes,
            start_time=min(task.trace.ready_at_ms, now_ms) * 1_000_000,
        )
        waited.end(now_ms * 1_000_000)
        with self._tracer.start_as_current_span(
            f"attempt {task.task_type}",
            context=parent,
            kind=self._api.SpanKind.CONSUMER,
            attributes=attributes,
        ) as span:
            yield span

    @contextmanager
    def handler(self, name: str) -> Iterator["Span"]:
        """The span that a handler sees as the current one."""
        with self._tracer.start_as_current_span(f"handler {name}") as span:
            yield span

    def note_failure(self, span: "Span", error: str, code: str | None) -> None:
        span.set_attribute("flo.error_code", code or "failure")
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, error))


class _Switch:
    """Whether there are traces in this process."""

    tracing: Tracing | None = None


SWITCH = _Switch()
_OFF: AbstractContextManager[Calling] = nullcontext(Calling())


def enable_tracing(provider: "TracerProvider | None" = None) -> None:
    """Make spans from now on, in this process: of calls that make runs, and of what workers do.

    Without a provider it is the one that the program has set with OpenTelemetry. It needs the extra
    `flo-runtime[otel]`.
    """
    with needs_extra("otel", "tracing"):
        SWITCH.tracing = Tracing(provider)


def disable_tracing() -> None:
    """Make no spans from now on."""
    SWITCH.tracing = None


def calling(verb: str, name: str) -> AbstractContextManager[Calling]:
    """The span of a call, if there are traces."""
    tracing = SWITCH.tracing
    return _OFF if tracing is None else tracing.calling(verb, name)


def _attributes(task: Task, worker_id: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "flo.run_id": task.task_id,
        "flo.action": task.task_type,
        "flo.attempt": task.attempt,
        "flo.worker_id": worker_id,
    }
    assert task.trace is not None
    if task.trace.step is not None:
        attributes["flo.step"] = task.trace.step
        attributes["flo.workflow_run_id"] = task.trace.workflow_run_id
    return attributes
