"""The HTTP API as one application: all its routes, and what they are given."""

from collections.abc import Callable
from functools import partial
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from flo.server.http.asker import Asker
from flo.server.http.description import Description
from flo.server.http.errors import EXCEPTION_HANDLERS
from flo.server.http.request import BODY_LENGTH_MAX, FloRequest, prepare
from flo.server.http.routes import actions as http_actions
from flo.server.http.routes import dead_letters as http_dead
from flo.server.http.routes import executions as http_workflow_runs
from flo.server.http.routes import group_dead_letters as http_letters
from flo.server.http.routes import groups as http_groups
from flo.server.http.routes import json_paths as http_json_paths
from flo.server.http.routes import kv as http_kv
from flo.server.http.routes import namespaces as http_namespaces
from flo.server.http.routes import plans as http_plans
from flo.server.http.routes import runs as http_runs
from flo.server.http.routes import schedules as http_schedules
from flo.server.http.routes import streams as http_streams
from flo.server.http.routes import system as http_system
from flo.server.http.routes import tasks as http_tasks
from flo.server.http.routes import workers as http_workers
from flo.server.http.routes import workflows as http_workflows
from flo.server.http.routes.system import ServerInfo
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
