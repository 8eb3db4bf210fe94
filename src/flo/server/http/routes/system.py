"""The HTTP routes about the server itself: is it alive, is it ready, what is it, what it counts."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from litestar import Response, get
from litestar.di import NamedDependency

from flo.model.base import Message
from flo.model.errors import FloError, Unavailable
from flo.server.http.errors import refusals
from flo.server.http.openapi.description import Description
from flo.server.metrics import EXPOSITION_TYPE, Metrics


class ServerInfo(NamedTuple):
    """What the server says of itself."""

    version: str
    started_at_ms: int
    store: str
    durability: str
    address: str
    """Where the RPC door is."""
    data_dir: str | None
    now_ms: Callable[[], int]
    problem: Callable[[], FloError | None]
    """Why it cannot write; None while it can."""
    counters: Callable[[], Mapping[str, int]]


class HealthJson(Message, omit_defaults=True):
    status: str
    """ok; degraded, if it answers queries and can write nothing."""
    reason: str | None = None
    """Why it is degraded."""


class ReadyJson(Message):
    status: str


class ServerJson(Message):
    """The server: what it is, how long it has been up, what it has counted."""

    version: str
    started_at_ms: int
    uptime_ms: int
    store: str
    durability: str
    address: str
    data_dir: str | None
    ready: bool
    counters: dict[str, int]


@get("/health", tags=["server"])
async def get_health(info: NamedDependency[ServerInfo]) -> HealthJson:
    """Alive: this answers as long as the process does."""
    problem = info.problem()
    if problem is None:
        return HealthJson(status="ok")
    return HealthJson(status="degraded", reason=problem.message)


@get("/ready", tags=["server"], responses=refusals())
async def get_ready(info: NamedDependency[ServerInfo]) -> ReadyJson:
    """Ready: recovered, and able to write; 503 with the reason if not."""
    problem = info.problem()
    if problem is not None:
        raise Unavailable(
            f"the server is not ready to take requests: {problem.message}",
            code="not_ready",
            details={**problem.details, "reason": problem.code},
        )
    return ReadyJson(status="ready")


@get("/metrics", tags=["server"], media_type=EXPOSITION_TYPE)
async def get_metrics(metrics: NamedDependency[Metrics]) -> bytes:
    """What the server counts, for Prometheus."""
    return metrics.exposition()


@get("/openapi.json", tags=["server"], sync_to_thread=True)
def get_openapi(description: NamedDependency[Description]) -> dict[str, Any]:
    """This description, as OpenAPI 3.1."""
    return description.document


@get("/docs", tags=["server"], media_type="text/html", sync_to_thread=True)
def get_docs(description: NamedDependency[Description]) -> Response[str]:
    """This description, as a page to read."""
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(description.page, media_type="text/html", headers=policy)


@get("/server", tags=["server"], responses=refusals())
async def get_server(info: NamedDependency[ServerInfo]) -> ServerJson:
    """The server itself."""
    return ServerJson(
        version=info.version,
        started_at_ms=info.started_at_ms,
        uptime_ms=info.now_ms() - info.started_at_ms,
        store=info.store,
        durability=info.durability,
        address=info.address,
        data_dir=info.data_dir,
        ready=info.problem() is None,
        counters=dict(info.counters()),
    )


ROOT_ROUTES = (get_health, get_ready, get_metrics, get_openapi, get_docs)
API_ROUTES = (get_server,)
