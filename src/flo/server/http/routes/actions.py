"""The HTTP routes of actions that do more than ask: register, inspect, change."""

from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from flo.model.actions import (
    ENTRYPOINT_DEFAULT,
    MAX_RETRIES_DEFAULT,
    MEMORY_PAGES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
    ActionSecrets,
    ActionView,
    AttemptTimeoutMs,
    ConcurrencyKey,
    Description,
    DisableAction,
    EnableAction,
    GetAction,
    IfChanged,
    InputSchema,
    MaxPerHour,
    MaxPerMinute,
    MaxPerSecond,
    MaxRetries,
    MaxRuns,
    OutputSchema,
    RegisterAction,
    Registered,
    RetryDelayMs,
    WasmEntrypoint,
    WasmMemoryLimit,
)
from flo.model.base import Message
from flo.model.declare.fields import about
from flo.model.errors import Conflict, Invalid
from flo.model.ids import (
    LIST_LIMIT_MAX,
    NAMESPACE_DEFAULT,
    ActionName,
    Namespace,
    WorkerId,
)
from flo.model.runs import ListRuns, RunView
from flo.model.workers import ListWorkers, WorkerView
from flo.server.http.answers import answered, answers
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import ActionPath, NamespaceQuery

RECENT_RUNS = 10


class LimitsBody(Message):
    """How many runs may be under way at a time, for each value of a key, and how many may begin."""

    concurrency_max: MaxRuns = None
    concurrency_key: ConcurrencyKey = ""
    max_per_second: MaxPerSecond = None
    max_per_minute: MaxPerMinute = None
    max_per_hour: MaxPerHour = None


class ActionBody(Message):
    """A registration."""

    name: ActionName
    timeout_ms: AttemptTimeoutMs = TIMEOUT_MS_DEFAULT
    max_retries: MaxRetries = MAX_RETRIES_DEFAULT
    retry_delay_ms: RetryDelayMs = RETRY_DELAY_MS_DEFAULT
    description: Description = ""
    input_schema: InputSchema = None
    output_schema: OutputSchema = None
    if_changed: IfChanged = False
    wasm_module: Annotated[
        str | None,
        about("A WebAssembly module, in base64: the server performs the action itself."),
    ] = None
    wasm_entrypoint: WasmEntrypoint = ENTRYPOINT_DEFAULT
    wasm_memory_limit: WasmMemoryLimit = MEMORY_PAGES_DEFAULT
    limits: LimitsBody | None = None
    secrets: ActionSecrets = msgspec.field(default_factory=list)


class SettingsBody(Message):
    """The settings to change; what is left out stays as it is, schemas and limits of null go.

    While `enabled` is false, new invocations are refused; runs that are there already go on.
    """

    timeout_ms: AttemptTimeoutMs | UnsetType = UNSET
    max_retries: MaxRetries | UnsetType = UNSET
    retry_delay_ms: RetryDelayMs | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    input_schema: InputSchema | UnsetType = UNSET
    output_schema: OutputSchema | UnsetType = UNSET
    limits: LimitsBody | UnsetType | None = UNSET
    secrets: ActionSecrets | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ActionDetail(ActionView):
    """An action, its newest runs, and the workers that serve it."""

    recent_runs: list[RunView] = msgspec.field(default_factory=list)
    workers: list[WorkerId] = msgspec.field(default_factory=list)


@post(
    "/actions",
    tags=["actions"],
    response_description="Registered; this is its first version.",
    responses={
        200: ResponseSpec(
            Registered, description="Registered; this is a later version.", generate_examples=False
        ),
        **refusals(413),
    },
)
async def register_action(
    gateway: NamedDependency[EngineGateway],
    data: JSONBody[ActionBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Response[Registered]:
    """Register an action, or replace its settings."""
    settings = asdict(data) | {"wasm_module": _module_of(data), "limits": _limits_of(data.limits)}
    command = RegisterAction(namespace=namespace, **settings)
    registered = await gateway.ask(command)
    return Response(registered, status_code=201 if registered.version == 1 else 200)


@get(
    "/actions/{name:str}",
    tags=["actions"],
    responses=answers(ActionDetail, "The action.", 404),
)
async def get_action(
    gateway: NamedDependency[EngineGateway],
    name: ActionPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Any:
    """An action: its settings, its runs by status, its newest runs, its workers."""
    action = await gateway.ask(GetAction(name=name, namespace=namespace))
    newest = ListRuns(action=name, namespace=namespace, limit=RECENT_RUNS)
    page = await gateway.ask(newest)
    workers = [
        worker.worker_id
        async for worker in _all_workers(gateway, namespace)
        if any(process.name == name for process in worker.processes)
    ]
    return answered(ActionDetail(**asdict(action), recent_runs=page.items, workers=workers))


@put("/actions/{name:str}", tags=["actions"], responses=refusals(404, 413))
async def change_action(
    gateway: NamedDependency[EngineGateway],
    name: ActionPath,
    data: JSONBody[SettingsBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Registered:
    """Change some settings of an action, or enable or disable it.

    Its version goes up by one if a setting is another than before; the switch makes no version.
    """
    wanted = {setting: value for setting, value in asdict(data).items() if value is not UNSET}
    enabled = wanted.pop("enabled", None)
    if "limits" in wanted:
        wanted["limits"] = _limits_of(wanted["limits"])
    changed = await _register_with(gateway, name, namespace, wanted)
    if enabled is not None:
        switch = EnableAction if enabled else DisableAction
        await gateway.ask(switch(name=name, namespace=namespace))
    return changed


async def _register_with(
    gateway: EngineGateway, name: ActionName, namespace: Namespace, changes: dict[str, Any]
) -> Registered:
    """Register the action anew with these changes, whoever else changes it meanwhile."""
    while True:
        action = await gateway.ask(GetAction(name=name, namespace=namespace))
        if not changes:
            return Registered(name=name, version=action.version)
        try:
            return await gateway.ask(_registration_of(action, changes))
        except Conflict as conflict:
            if conflict.code != "version_changed":
                raise


def _limits_of(body: LimitsBody | None) -> ActionLimits | None:
    return ActionLimits(**asdict(body)) if body is not None else None


def _module_of(body: ActionBody) -> bytes | None:
    if body.wasm_module is None:
        return None
    try:
        return b64decode(body.wasm_module, validate=True)
    except ValueError as error:
        raise Invalid(f"expected wasm_module in base64: {error}") from error


def _registration_of(action: ActionView, changes: dict[str, Any]) -> RegisterAction:
    """The settings in force, but for these changes."""
    settings: dict[str, Any] = {
        "timeout_ms": action.timeout_ms,
        "max_retries": action.max_retries,
        "retry_delay_ms": action.retry_delay_ms,
        "description": action.description,
        "input_schema": action.input_schema,
        "output_schema": action.output_schema,
        "secrets": action.secrets,
    }
    if action.limits is not None:
        settings["limits"] = ActionLimits(**asdict(action.limits))
    if action.wasm_digest is not None:
        settings["wasm_digest"] = action.wasm_digest
        settings["wasm_entrypoint"] = action.wasm_entrypoint
        settings["wasm_memory_limit"] = action.wasm_memory_limit
    return RegisterAction(
        name=action.name,
        namespace=action.namespace,
        if_changed=True,
        if_version=action.version,
        **settings | changes,
    )


async def _all_workers(gateway: EngineGateway, namespace: Namespace) -> AsyncIterator[WorkerView]:
    cursor: str | None = None
    while True:
        query = ListWorkers(namespace=namespace, limit=LIST_LIMIT_MAX, cursor=cursor)
        page = await gateway.ask(query)
        for worker in page.items:
            yield worker
        cursor = page.cursor
        if cursor is None:
            return


ROUTES = (register_action, get_action, change_action)
