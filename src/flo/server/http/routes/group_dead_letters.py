"""The HTTP routes of the dead letters of consumer groups: list, requeue, purge."""

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from flo.model.base import Message
from flo.model.groups import (
    LetterPage,
    LettersChanged,
    LetterView,
    ListLetters,
    PurgeLetters,
    RequeueLetters,
)
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, StreamId
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    CursorQuery,
    GroupPath,
    LimitQuery,
    NamespaceQuery,
    StreamPath,
)
from flo.server.http.routes.dead_letters import LETTERS_PER_CALL_DEFAULT
from flo.server.http.routes.streams import RecordJson, record_fields


class LettersBody(Message):
    """Which dead letters: those in `ids`, or all; of all, the newest `limit` (up to 1000).

    Of those in `ids`, all are taken or none.
    """

    ids: list[StreamId] | None = None
    limit: int = LETTERS_PER_CALL_DEFAULT


class LetterJson(RecordJson):
    """A record that the group gave up, after so many deliveries; it outlives the stream's own."""

    deliveries: int
    died_at_ms: int


class LetterPageJson(Message):
    items: list[LetterJson]
    cursor: str | None


@get(
    "/streams/{name:str}/groups/{group:str}/dlq", tags=["consumer groups"], responses=refusals(404)
)
async def list_letters(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> LetterPageJson:
    """The dead letters of a group, the newest first."""
    query = ListLetters(stream=name, group=group, namespace=namespace, limit=limit, cursor=cursor)
    page = await asker.ask(query, LetterPage)
    return LetterPageJson(items=[_letter_json(view) for view in page.items], cursor=page.cursor)


@post(
    "/streams/{name:str}/groups/{group:str}/dlq/requeue",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 409, 413),
)
async def requeue_letters(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[LettersBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> LettersChanged:
    """Hand out dead letters again, as if for the first time: some, or with `{}` all.

    While the answer says `more`, there are others: ask again.
    """
    command = RequeueLetters(stream=name, group=group, namespace=namespace, **asdict(data))
    return await asker.ask(command, LettersChanged)


@delete(
    "/streams/{name:str}/groups/{group:str}/dlq",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 413),
)
async def purge_letters(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[LettersBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> LettersChanged:
    """Forget dead letters: some, or with `{}` all.

    The body must be there, so that one lost on the way does not forget more than was meant. While
    the answer says `more`, there are others: ask again.
    """
    command = PurgeLetters(stream=name, group=group, namespace=namespace, **asdict(data))
    return await asker.ask(command, LettersChanged)


def _letter_json(view: LetterView) -> LetterJson:
    return LetterJson(
        **record_fields(view.record), deliveries=view.deliveries, died_at_ms=view.died_at_ms
    )


ROUTES = (list_letters, requeue_letters, purge_letters)
