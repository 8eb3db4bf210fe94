"""The HTTP routes of tasks: a worker reports a result, a failure, or that it needs more time."""

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from flo.model.base import Message
from flo.model.ids import NAMESPACE_DEFAULT, WorkerId
from flo.model.payload import Encoding, payload_from_json
from flo.model.runs import OUTCOME_SUCCESS, Accepted, Complete, Fail, Touch, Touched
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import PAYLOAD_BODY_LENGTH_MAX, NamespaceQuery, TaskPath


class CompleteBody(Message):
    """`result` is any JSON, or text or bytes in base64 if `result_encoding` says so.

    `attempt` 0 means: whichever this worker holds now.
    """

    worker_id: WorkerId
    attempt: int = 0
    result: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    result_encoding: Encoding = "json"
    outcome: str = OUTCOME_SUCCESS


class FailBody(Message):
    """Without `retry` the run has failed for good, kept for a requeue if `dead_letter`."""

    worker_id: WorkerId
    attempt: int = 0
    error: str = ""
    retry: bool = False
    dead_letter: bool = True


class TouchBody(Message):
    """The lease is to last `extend_ms` from now."""

    worker_id: WorkerId
    attempt: int = 0
    extend_ms: int = 30_000


@post(
    "/tasks/{task_id:str}/complete",
    status_code=200,
    tags=["tasks"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(404, 409, 413),
)
async def complete_task(
    asker: NamedDependency[Asker],
    task_id: TaskPath,
    data: JSONBody[CompleteBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Accepted:
    """Report the result of a task.

    A result that its schema refuses is 400 `output_invalid`; the task is still the worker's.
    """
    command = Complete(
        run_id=task_id,
        worker_id=data.worker_id,
        namespace=namespace,
        attempt=data.attempt,
        output=payload_from_json(data.result, data.result_encoding, "result"),
        outcome=data.outcome,
    )
    return await asker.ask(command, Accepted)


@post(
    "/tasks/{task_id:str}/fail",
    status_code=200,
    tags=["tasks"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(404, 409, 413),
)
async def fail_task(
    asker: NamedDependency[Asker],
    task_id: TaskPath,
    data: JSONBody[FailBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Accepted:
    """Report that an attempt has failed."""
    command = Fail(run_id=task_id, namespace=namespace, **asdict(data))
    return await asker.ask(command, Accepted)


@post(
    "/tasks/{task_id:str}/touch",
    status_code=200,
    tags=["tasks"],
    responses=refusals(404, 409, 413),
)
async def touch_task(
    asker: NamedDependency[Asker],
    task_id: TaskPath,
    data: JSONBody[TouchBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Touched:
    """Extend the lease of a task that takes longer."""
    command = Touch(run_id=task_id, namespace=namespace, **asdict(data))
    return await asker.ask(command, Touched)


ROUTES = (complete_task, fail_task, touch_task)
