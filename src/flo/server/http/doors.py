"""The HTTP doors: the API with its pages, and the metrics alone.

    socket ─▸ BoundedProtocol ─▸ EdgeMiddleware ─▸ Authentication ─▸ BudgetGate ─▸ KeyPaths
              time, length       other hosts and   who sends it      memory        slashes
                                 sites, counts                                     in keys
           ─▸ Litestar ─▸ gateway
              routes,     until the client
              errors      leaves

A door has a port once it has started; stopping it lets go of everyone.
"""

import ssl

from flo.server.auth.access import OPEN, Access
from flo.server.auth.identity import Identity
from flo.server.budget import MemoryBudget, unlimited
from flo.server.hosts import AllowedHosts
from flo.server.http.app import API_PATH, build_app, build_metrics_app
from flo.server.http.authentication import Authentication
from flo.server.http.budget_gate import BudgetGate
from flo.server.http.gateway import Backend, EngineGateway
from flo.server.http.key_paths import KeyPaths
from flo.server.http.listener import HttpListener
from flo.server.http.middleware import EdgeMiddleware
from flo.server.http.protocol import Bounds
from flo.server.http.routes.system import ServerInfo
from flo.server.metrics import Metrics

BOUNDS = Bounds()
BY_ADDRESS = AllowedHosts()

__all__ = ["Backend", "Bounds", "HttpDoor", "MetricsDoor", "ServerInfo"]


class HttpDoor(HttpListener):
    """The whole API. Whoever still waits when it stops is told to try again."""

    def __init__(
        self,
        engine: Backend,
        info: ServerInfo,
        metrics: Metrics,
        host: str,
        port: int,
        bounds: Bounds = BOUNDS,
        hosts: AllowedHosts = BY_ADDRESS,
        *,
        budget: MemoryBudget | None = None,
        access: Access = OPEN,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        budget = budget or unlimited()

        def bound_to(identity: Identity) -> Backend:
            return access.guard_for(identity) or engine

        self._gateway = EngineGateway(engine, budget, bound_to)
        self.app = build_app(self._gateway, info, metrics, access.sessions)
        gate = BudgetGate(KeyPaths(self.app, API_PATH), budget)
        app = EdgeMiddleware(Authentication(gate, access), metrics, hosts)
        super().__init__(app, metrics, host, port, bounds, tls)
        self.visitors.rpc = info.address

    async def stop(self) -> None:
        self._gateway.stop()
        await super().stop()


class MetricsDoor(HttpListener):
    """/metrics and nothing else, for a port that only the monitoring can reach."""

    def __init__(
        self,
        metrics: Metrics,
        host: str,
        port: int,
        bounds: Bounds = BOUNDS,
        hosts: AllowedHosts = BY_ADDRESS,
        *,
        access: Access = OPEN,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        counts = Authentication(build_metrics_app(metrics), access)
        app = EdgeMiddleware(counts, metrics, hosts)
        super().__init__(app, metrics, host, port, bounds, tls)
