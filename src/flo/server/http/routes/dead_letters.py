"""The HTTP routes of dead letters: list, requeue, purge."""

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from flo.model.base import Message
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, RunId
from flo.model.runs import ListDead, Purged, PurgeDead, Requeued, RequeueDead, RunPage
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import ActionPath, CursorQuery, LimitQuery, NamespaceQuery, RunPath
from flo.server.http.routes.runs import RunPageJson, page_json

LETTERS_PER_CALL_DEFAULT = 100


class DeadBody(Message):
    """Which dead letters: those in `run_ids`, or all; of all, no more than `limit` (up to 1000).

    Of those in `run_ids`, all are taken or none.
    """

    run_ids: list[RunId] | None = None
    limit: int = LETTERS_PER_CALL_DEFAULT


@get("/actions/{name:str}/dlq", tags=["dead letters"], responses=refusals())
async def list_dead(
    asker: NamedDependency[Asker],
    name: ActionPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> RunPageJson:
    """The dead letters of an action, the newest first."""
    query = ListDead(action=name, namespace=namespace, limit=limit, cursor=cursor)
    return page_json(await asker.ask(query, RunPage))


@post(
    "/actions/{name:str}/dlq/requeue",
    status_code=200,
    tags=["dead letters"],
    responses=refusals(404, 409, 413),
)
async def requeue_dead(
    asker: NamedDependency[Asker],
    name: ActionPath,
    data: JSONBody[DeadBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Requeued:
    """Make dead letters pending again, with all their retries: some, or with `{}` all.

    While the answer says `more`, there are others: ask again.
    """
    command = RequeueDead(action=name, namespace=namespace, **asdict(data))
    return await asker.ask(command, Requeued)


@delete(
    "/actions/{name:str}/dlq",
    status_code=200,
    tags=["dead letters"],
    responses=refusals(404, 409, 413),
)
async def purge_dead(
    asker: NamedDependency[Asker],
    name: ActionPath,
    data: JSONBody[DeadBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Purged:
    """Forget dead letters: some, or with `{}` all.

    The body must be there, so that one lost on the way does not forget more than was meant. While
    the answer says `more`, there are others: ask again.
    """
    command = PurgeDead(action=name, namespace=namespace, **asdict(data))
    return await asker.ask(command, Purged)


@post(
    "/actions/{name:str}/dlq/{run_id:str}/requeue",
    status_code=200,
    tags=["dead letters"],
    responses=refusals(404, 409),
)
async def requeue_dead_run(
    asker: NamedDependency[Asker],
    name: ActionPath,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Requeued:
    """Make one dead letter pending again, with all its retries."""
    command = RequeueDead(action=name, namespace=namespace, run_ids=[run_id])
    return await asker.ask(command, Requeued)


@delete("/actions/{name:str}/dlq/{run_id:str}", tags=["dead letters"], responses=refusals(404, 409))
async def purge_dead_run(
    asker: NamedDependency[Asker],
    name: ActionPath,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Forget one dead letter."""
    command = PurgeDead(action=name, namespace=namespace, run_ids=[run_id])
    await asker.ask(command, Purged)


ROUTES = (list_dead, requeue_dead, purge_dead, requeue_dead_run, purge_dead_run)
