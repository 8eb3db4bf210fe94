"""The HTTP API as one application: all its routes, and what they are given."""

from collections.abc import Callable
from functools import partial
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from flo.server import (
    http_actions,
    http_dead,
    http_groups,
    http_json_paths,
    http_kv,
    http_letters,
    http_namespaces,
    http_plans,
    http_runs,
    http_schedules,
    http_streams,
    http_system,
    http_tasks,
    http_workers,
    http_workflow_runs,
    http_workflows,
)
from flo.server.http_asker import Asker
from flo.server.http_description import Description
from flo.server.http_errors import EXCEPTION_HANDLERS
from flo.server.http_request import BODY_LENGTH_MAX, FloRequest, prepare
from flo.server.http_system import ServerInfo
from flo.server.metrics import Metrics

API_PATH = "/api/v1"


def build_app(asker: Asker, info: ServerInfo, metrics: Metrics) -> Litestar:
    api = Router(
        API_PATH,
        route_handlers=[
            *http_system.API_ROUTES,
            *http_namespaces.ROUTES,
            *http_actions.ROUTES,
            *http_runs.ROUTES,
            *http_dead.ROUTES,
            *http_workers.ROUTES,
            *http_tasks.ROUTES,
            *http_streams.ROUTES,
            *http_groups.ROUTES,
            *http_letters.ROUTES,
            *http_kv.ROUTES,
            *http_json_paths.ROUTES,
            *http_workflows.ROUTES,
            *http_workflow_runs.ROUTES,
            *http_schedules.ROUTES,
            *http_plans.ROUTES,
        ],
        before_request=prepare,
    )
    routes: list[ControllerRouterHandler] = [*http_system.ROOT_ROUTES, api]
    dependencies = {
        "asker": _given(lambda: asker),
        "info": _given(lambda: info),
        "metrics": _given(lambda: metrics),
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
        [http_system.get_metrics],
        dependencies={"metrics": _given(lambda: metrics)},
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
        openapi_config=None,
    )


def _given(value: Callable[[], Any]) -> Provide:
    return Provide(value, sync_to_thread=False)
