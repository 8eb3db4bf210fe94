"""A listener of its own for neops workers: their paths at its root, and none of the API's.

Its clients send no credentials. So it listens on this machine alone, unless it is told otherwise.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from litestar import Litestar, Request
from litestar.di import Provide

from flo.engine.state import State
from flo.model.ids import Namespace, WorkerId
from flo.server.auth.access import OPEN
from flo.server.blackboard.board import METADATA, Blackboard
from flo.server.blackboard.calls import CALLS
from flo.server.blackboard.pulse import WorkerPulse
from flo.server.blackboard.views import VIEWS
from flo.server.budget import MemoryBudget, unlimited
from flo.server.hosts import AllowedHosts
from flo.server.http.authentication import Authentication
from flo.server.http.budget_gate import BudgetGate
from flo.server.http.errors import EXCEPTION_HANDLERS
from flo.server.http.gateway import Backend, EngineGateway
from flo.server.http.listener import HttpListener
from flo.server.http.middleware import EdgeMiddleware
from flo.server.http.protocol import Bounds
from flo.server.http.request import BODY_LENGTH_MAX, FloRequest
from flo.server.http.routes.system import ServerInfo
from flo.server.metrics import Metrics


class BlackboardDoor(HttpListener):
    def __init__(
        self,
        engine: Backend,
        pulse: WorkerPulse,
        info: ServerInfo,
        metrics: Metrics,
        host: str,
        port: int,
        namespace: Namespace,
        hosts: AllowedHosts,
        *,
        jobs_max: int = 1,
        budget: MemoryBudget | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        budget = budget or unlimited()
        self.pulse = pulse
        self._gateway = EngineGateway(engine, budget)
        board = Blackboard(engine, pulse, namespace, jobs_max)
        gate = BudgetGate(_app(self._gateway, board, info), budget)
        app = EdgeMiddleware(Authentication(gate, OPEN), metrics, hosts)
        super().__init__(app, metrics, host, port, bounds or Bounds())

    async def stop(self) -> None:
        self.pulse.stop()
        self._gateway.stop()
        await super().stop()


def known_workers(state: State, namespace: Namespace) -> Iterator[WorkerId]:
    """The workers that came through this door before the server was started."""
    for worker in state.space(namespace).workers.values():
        if METADATA in (worker.metadata or {}):
            yield worker.worker_id


def _app(gateway: EngineGateway, board: Blackboard, info: ServerInfo) -> Litestar:
    def on_behalf(request: FloRequest) -> EngineGateway:
        return gateway.of(request)

    return Litestar(
        [*CALLS, *VIEWS],
        dependencies={
            "gateway": _given(on_behalf),
            "board": _given(lambda: board),
            "info": _given(lambda: info),
        },
        before_request=_decode_path,
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
        openapi_config=None,
        request_class=FloRequest,
        request_max_body_size=BODY_LENGTH_MAX,
    )


async def _decode_path(request: Request[Any, Any, Any]) -> None:
    """Names in the path, percent-decoded: it was matched as it came on the wire."""
    request.scope["path_params"] = {
        name: unquote(value, errors="replace") for name, value in request.path_params.items()
    }


def _given(value: Callable[..., Any]) -> Provide:
    return Provide(value, sync_to_thread=False)
