"""The HTTP API as one application: all its routes, and what they are given."""

from collections.abc import Callable
from functools import partial
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from flo.server.auth.sessions import BrowserSessions
from flo.server.http.derive import derived_routes
from flo.server.http.errors import EXCEPTION_HANDLERS
from flo.server.http.gateway import EngineGateway
from flo.server.http.openapi.description import Description
from flo.server.http.request import BODY_LENGTH_MAX, FloRequest, prepare
from flo.server.http.routes import (
    actions,
    executions,
    json_paths,
    kv,
    login,
    runs,
    streams,
    system,
    tokens,
    workflows,
)
from flo.server.http.routes.system import ServerInfo
from flo.server.metrics import Metrics

API_PATH = "/api/v1"


def build_app(
    gateway: EngineGateway, info: ServerInfo, metrics: Metrics, sessions: BrowserSessions
) -> Litestar:
    api = Router(
        API_PATH,
        route_handlers=[
            *derived_routes(),
            *system.API_ROUTES,
            *actions.ROUTES,
            *runs.ROUTES,
            *streams.ROUTES,
            *kv.ROUTES,
            *json_paths.ROUTES,
            *workflows.ROUTES,
            *executions.ROUTES,
            *tokens.ROUTES,
            *login.ROUTES,
        ],
        before_request=prepare,
    )
    routes: list[ControllerRouterHandler] = [*system.ROOT_ROUTES, api]

    def on_behalf(request: FloRequest) -> EngineGateway:
        return gateway.of(request)

    dependencies = {
        "gateway": _given(on_behalf),
        "info": _given(lambda: info),
        "metrics": _given(lambda: metrics),
        "sessions": _given(lambda: sessions),
        "description": _given(lambda: description),
    }
    build = partial(
        Litestar,
        routes,
        dependencies=dependencies,
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
        request_class=FloRequest,
        request_max_body_size=BODY_LENGTH_MAX,
    )
    description = Description(build, info.version)
    return build(openapi_config=None)


def build_metrics_app(metrics: Metrics) -> Litestar:
    return Litestar(
        [system.get_metrics],
        dependencies={"metrics": _given(lambda: metrics)},
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
        openapi_config=None,
    )


def _given(value: Callable[..., Any]) -> Provide:
    return Provide(value, sync_to_thread=False)
