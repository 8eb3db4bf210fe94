"""What else the published client of neops can ask: workers, blocks and jobs, and the server itself.

Its worker calls none of these; people and their tools do.
"""

from typing import Any

import msgspec
import structlog
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from flo.compat.neops.blocks import BlockAnswer
from flo.compat.neops.body import Body, iso, read_body
from flo.compat.neops.jobs import LogBody, label_of
from flo.compat.neops.workers import WorkerAnswer
from flo.model.blocks.blocks import BlockView, DeleteBlock, GetBlock, ListBlocks
from flo.model.blocks.jobs import JobView, ListJobs
from flo.model.blocks.names import parse_job_action
from flo.model.ids import LIST_LIMIT_MAX
from flo.model.runs import RunStatus
from flo.model.version import VERSION
from flo.model.workers import ListWorkers, WorkerView
from flo.server.blackboard.board import METADATA, Blackboard
from flo.server.blackboard.workflows import WORKFLOWS
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import FloRequest
from flo.server.http.routes.system import ServerInfo
from flo.workflow.neops.document import RootWorkflow

LOG_LENGTH_MAX = 4_096
STATUSES = {RunStatus.PENDING: "pending", RunStatus.RUNNING: "polled"}

_logger = structlog.get_logger("flo.blackboard")


class JobAnswer(Body):
    function_block_id: str
    job_id: str
    type: str
    status: str
    worker_id: str | None
    worker_name: str | None
    worker_deleted: bool
    step_label: str | None = None
    result_status: str | None = None


class BlockRegistrationAnswer(Body):
    function_block: BlockAnswer
    created_at: str
    updated_at: str


# ── the server ──


@get("/health")
async def get_health(info: NamedDependency[ServerInfo]) -> dict[str, Any]:
    healthy = info.problem() is None
    return {"healthy": healthy, "status": "ok" if healthy else "degraded"}


@get("/version")
async def get_version() -> dict[str, str]:
    return {"version": VERSION}


@get("/schema", sync_to_thread=False)
def get_schema() -> dict[str, Any]:
    """The JSON Schema of a definition."""
    return msgspec.json.schema(RootWorkflow)


@post("/blackboard/job/log", status_code=201)
async def log_line(request: FloRequest) -> Response[None]:
    """A line that a job has written: into the log of the server."""
    body = read_body(LogBody, await request.body())
    _logger.info(
        "job_log",
        job=body.job_id[:200],
        level=body.log_level[:20],
        text=body.log_entry[:LOG_LENGTH_MAX],
    )
    return Response(None, status_code=201)


# ── workers ──


@get("/workers")
async def get_workers(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[WorkerAnswer]:
    return [worker_answer(board, view) for view in await _workers(gateway, board)]


@get("/workers/online")
async def get_online(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[WorkerAnswer]:
    answers = [worker_answer(board, view) for view in await _workers(gateway, board)]
    return [answer for answer in answers if answer.state == "online"]


@get("/workers/{uuid:str}")
async def get_worker(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> WorkerAnswer:
    return worker_answer(board, await board.worker(gateway, uuid))


@get("/workers/{uuid:str}/function-blocks")
async def get_blocks_of_worker(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[str]:
    return blocks_of(await board.worker(gateway, uuid))


@get("/workers/{uuid:str}/jobs")
async def get_jobs_of_worker(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[JobAnswer]:
    await board.worker(gateway, uuid)
    return [job_answer_of(job) for job in await _jobs(gateway, board) if job.worker_id == uuid]


@delete("/workers/{uuid:str}", status_code=204)
async def delete_worker(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> None:
    await board.worker(gateway, uuid)
    await board.unregister(gateway, uuid)


@post(["/workers/cleanup", "/workers/cleanup-offline"], status_code=200)
async def clean_up(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> dict[str, Any]:
    """Those that are silent go at once, and not only when their time is over."""
    gone = []
    for view in await _workers(gateway, board):
        if board.pulse.state(view.worker_id) != "online":
            await board.unregister(gateway, view.worker_id)
            gone.append(view.worker_id)
    return {"cleanedUpWorkerIds": gone, "failedJobCount": 0}


# ── blocks ──


@get("/function-blocks/registrations/list")
async def get_registrations(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[BlockRegistrationAnswer]:
    page = await gateway.ask(ListBlocks(namespace=board.namespace, limit=LIST_LIMIT_MAX))
    return [
        BlockRegistrationAnswer(
            function_block=block_answer(view),
            created_at=iso(view.created_at_ms),
            updated_at=iso(view.updated_at_ms),
        )
        for view in page.items
    ]


@get("/function-blocks/{package:str}/{name:str}/{version:str}")
async def get_block(
    package: FromPath[str],
    name: FromPath[str],
    version: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> BlockAnswer:
    return block_answer(await _block(gateway, board, f"{package}/{name}:{version}"))


@get("/function-blocks/{package:str}/{name:str}/{version:str}/workers")
async def get_workers_of_block(
    package: FromPath[str],
    name: FromPath[str],
    version: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> list[WorkerAnswer]:
    view = await _block(gateway, board, f"{package}/{name}:{version}")
    return [
        worker_answer(board, worker)
        for worker in await _workers(gateway, board)
        if worker.worker_id in view.workers
    ]


@delete("/function-blocks/{package:str}/{name:str}/{version:str}", status_code=200)
async def delete_block(
    package: FromPath[str],
    name: FromPath[str],
    version: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> Response[None]:
    block = f"{package}/{name}:{version}"
    await gateway.ask(DeleteBlock(block=block, namespace=board.namespace))
    return Response(None, status_code=200)


# ── jobs ──


@get(["/blackboard/jobs", "/blackboard/jobs/active"])
async def get_jobs(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[JobAnswer]:
    """Those that have not ended."""
    return [job_answer_of(job) for job in await _jobs(gateway, board)]


# ── what they are made of ──


async def _workers(gateway: EngineGateway, board: Blackboard) -> list[WorkerView]:
    page = await gateway.ask(ListWorkers(namespace=board.namespace, limit=LIST_LIMIT_MAX))
    return [view for view in page.items if METADATA in (view.metadata or {})]


async def _block(gateway: EngineGateway, board: Blackboard, block: str) -> BlockView:
    return await gateway.ask(GetBlock(block=block, namespace=board.namespace))


async def _jobs(gateway: EngineGateway, board: Blackboard) -> list[JobView]:
    page = await gateway.ask(ListJobs(namespace=board.namespace, limit=LIST_LIMIT_MAX))
    return page.items


def blocks_of(view: WorkerView) -> list[str]:
    found = (parse_job_action(process.name) for process in view.processes)
    return list(dict.fromkeys(one[0] for one in found if one is not None))


def worker_answer(board: Blackboard, view: WorkerView) -> WorkerAnswer:
    about: dict[str, Any] = (view.metadata or {})[METADATA]
    heard_ms = board.pulse.heard_at_ms(view.worker_id) or view.registered_at_ms
    heard = iso(heard_ms)
    return WorkerAnswer(
        uuid=view.worker_id,
        version=about["version"],
        name=about["name"],
        ip_address=about["ipAddress"],
        state=board.pulse.state(view.worker_id),
        last_ping_at=heard,
        last_seen_at=heard,
        created_at=iso(view.registered_at_ms),
        updated_at=heard,
        function_block_ids=blocks_of(view),
    )


def block_answer(view: BlockView) -> BlockAnswer:
    major, minor, patch = map(int, view.version.split("."))
    return BlockAnswer(
        id=view.block,
        package=view.package,
        name=view.name,
        major_version=major,
        minor_version=minor,
        patch_version=patch,
        run_on=view.run_on.value,
        fb_type=view.type.value,
        description=view.description,
        markdown_help_text=view.help,
        deprecated=view.deprecated,
        parameter_json_schema=view.parameter_schema or {},
        result_data_json_schema=view.result_schema or {},
        is_idempotent=view.idempotent,
        is_pure=view.pure,
        reversible=view.reversible,
        created_at=iso(view.created_at_ms),
        updated_at=iso(view.updated_at_ms),
    )


def job_answer_of(job: JobView) -> JobAnswer:
    return JobAnswer(
        function_block_id=job.block,
        job_id=job.job_id,
        type=job.job.value,
        status=STATUSES.get(job.status, "pushed"),
        worker_id=job.worker_id,
        worker_name=None,
        worker_deleted=False,
        step_label=label_of(job.step),
    )


VIEWS = (
    get_health,
    get_version,
    get_schema,
    log_line,
    get_workers,
    get_online,
    get_worker,
    get_blocks_of_worker,
    get_jobs_of_worker,
    delete_worker,
    clean_up,
    get_registrations,
    get_block,
    get_workers_of_block,
    delete_block,
    get_jobs,
    *WORKFLOWS,
)
