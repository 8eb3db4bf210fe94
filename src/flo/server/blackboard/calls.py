"""The seven calls of a neops worker, with the status codes that it needs.

    POST /version/compatibility      201        POST /blackboard/job              201
    POST /workers/register           201        POST /blackboard/job/result       201
    POST /function-blocks/register   201        POST /workers/{uuid}/unregister   200
    POST /workers/{uuid}/ping        200

The published client reads a body only with the one status that it expects: with 200 in place of 201
it drops the jobs of a poll without a word.
"""

from typing import Any

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from flo.compat.neops.blocks import RegisterBlockBody
from flo.compat.neops.body import iso, read_body
from flo.compat.neops.jobs import PollBody, ResultBody
from flo.compat.neops.workers import (
    RegisterWorkerBody,
    VersionAnswer,
    VersionBody,
    WorkerAnswer,
    check_version,
)
from flo.model.version import VERSION
from flo.server.blackboard.board import Blackboard
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import PAYLOAD_BODY_LENGTH_MAX, FloRequest
from flo.server.http.routes.system import ServerInfo

DONE: dict[str, Any] = {"success": True}


@post("/version/compatibility", status_code=201)
async def check_compatibility(request: FloRequest) -> VersionAnswer:
    return check_version(read_body(VersionBody, await request.body()), VERSION)


@post("/workers/register", status_code=201)
async def register_worker(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
    info: NamedDependency[ServerInfo],
) -> WorkerAnswer:
    body = read_body(RegisterWorkerBody, await request.body())
    worker_id = await board.register(gateway, body)
    now = iso(info.now_ms())
    return WorkerAnswer(
        uuid=worker_id,
        version=body.version,
        state=board.pulse.state(worker_id),
        last_ping_at=now,
        created_at=now,
        updated_at=now,
        name=body.name,
        ip_address=body.ip_address,
    )


@post("/function-blocks/register", status_code=201)
async def register_block(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> None:
    await board.register_block(gateway, read_body(RegisterBlockBody, await request.body()))


@post("/workers/{uuid:str}/ping", status_code=200)
async def ping(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> dict[str, Any]:
    await board.ping(gateway, uuid)
    return DONE


@post("/workers/{uuid:str}/unregister", status_code=200)
async def unregister(
    uuid: FromPath[str], gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> dict[str, Any]:
    await board.unregister(gateway, uuid)
    return DONE


@post("/blackboard/job", status_code=201)
async def poll(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> list[dict[str, Any]]:
    return await board.poll(gateway, read_body(PollBody, await request.body()), request)


@post("/blackboard/job/result", status_code=201, request_max_body_size=PAYLOAD_BODY_LENGTH_MAX)
async def push(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> Response[None]:
    await board.push(gateway, read_body(ResultBody, await request.body()))
    return Response(None, status_code=201)


CALLS = (
    check_compatibility,
    register_worker,
    register_block,
    ping,
    unregister,
    poll,
    push,
)
