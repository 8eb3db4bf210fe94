import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual
from flo import Conflict, Flo, NotFound
from flo.client.dead_letters import change_dead
from flo.client.noun import Noun
from flo.client.session.session import Session
from flo.model.runs import DeadRunsChanged, PurgeDeadRuns, RequeueDeadRuns
from flo.wire.codec import Answer
from flo.wire.opcodes import Form


async def die(flo: Flo, runs_count: int) -> list[str]:
    """Runs that have failed for good, the newest first."""
    await flo.actions.register("a", max_retries=0)
    invocations = await flo.actions.invoke_many("a", range(runs_count))
    tasks = (await flo.workers.claim("anna", ["a"], max_tasks=runs_count)).tasks
    for task in tasks:
        await flo.workers.fail(task.task_id, "anna", "broken", attempt=task.attempt)
    return [one.run_id for one in reversed(invocations)]


async def test_dead_letters_are_listed_page_by_page(flo: Flo) -> None:
    dead = await die(flo, 3)
    page = await flo.actions.dead("a", limit=2)
    rest = await flo.actions.dead("a", limit=2, cursor=page.cursor)

    assert [run.run_id for run in (*page.items, *rest.items)] == dead
    assert {run.error for run in page.items} == {"broken"}


@pytest.mark.parametrize("named", ["a-2", ["a-2"]])
async def test_one_dead_letter_gets_another_life(flo: Flo, named: Any) -> None:
    await die(flo, 3)

    assert await flo.actions.requeue("a", named) == ["a-2"]
    (task,) = (await flo.workers.claim("anna", ["a"], max_tasks=5)).tasks
    assert (task.task_id, task.attempt) == ("a-2", 2)


async def test_all_dead_letters_get_another_life_however_many_there_are(flo: Flo) -> None:
    dead = await die(flo, 250)

    assert await flo.actions.requeue("a") == dead
    assert (await flo.actions.get("a")).runs["pending"] == 250
    assert (await flo.actions.dead("a")).items == []
    assert await flo.actions.requeue("a") == []


async def test_dead_letters_are_forgotten(flo: Flo) -> None:
    dead = await die(flo, 3)

    assert await flo.actions.purge("a", ["a-1"]) == ["a-1"]
    assert await flo.actions.purge("a") == dead[:2]
    with pytest.raises(NotFound):
        await flo.actions.status("a-1")


async def test_what_is_no_dead_letter_is_refused(flo: Flo) -> None:
    await die(flo, 1)
    await flo.actions.invoke("a")

    with pytest.raises(Conflict, match="no dead letter"):
        await flo.actions.requeue("a", ["a-2"])
    with pytest.raises(NotFound):
        await flo.actions.purge("a", ["a-3"])


def changed(server: FakeServer, command: RequeueDeadRuns | PurgeDeadRuns, run_ids: Any) -> Any:
    async def main() -> Any:
        session = Session(server.connect, "flo:9000", rng=lambda: 1.0)
        changing = asyncio.ensure_future(change_dead(Noun(session, "default"), command, run_ids))
        await asyncio.wait({changing}, timeout=5.0)
        if not changing.done():
            server.hang_up()
        try:
            return await changing
        finally:
            await session.close()

    return run_virtual(main())


def test_many_that_are_named_go_in_as_many_commands_as_it_takes() -> None:
    def requeue(_: Form, messages: Sequence[Any]) -> list[Answer]:
        return [DeadRunsChanged(ids=messages[0].ids)]

    server = FakeServer(requeue)
    run_ids = [f"a-{number}" for number in range(2_500)]

    assert changed(server, RequeueDeadRuns(action="a"), iter(run_ids)) == run_ids
    assert [len(messages[0].ids) for _, messages in server.requests] == [1_000, 1_000, 500]


def test_dead_letters_that_die_again_at_once_are_not_requeued_for_ever() -> None:
    batches = iter([["a-4", "a-3"], ["a-4", "a-2"], ["a-4", "a-3"]])
    server = FakeServer(lambda *_: [DeadRunsChanged(ids=next(batches), more=True)])

    assert changed(server, RequeueDeadRuns(action="a"), None) == ["a-4", "a-3", "a-2"]


def test_a_command_whose_answer_is_lost_is_repeated_with_its_number() -> None:
    batches = iter([(["a-1"], True), None, (["a-2"], False)])

    def requeue(_: Form, messages: Sequence[Any]) -> list[Answer] | None:
        batch = next(batches)
        return None if batch is None else [DeadRunsChanged(ids=batch[0], more=batch[1])]

    server = FakeServer(requeue)

    assert changed(server, RequeueDeadRuns(action="a"), None) == ["a-1", "a-2"]
    assert [keys and keys.keys for keys in server.keys] == [0, 1, 1]
