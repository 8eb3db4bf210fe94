import asyncio
import threading
from datetime import UTC, datetime

import msgspec
import pytest

from client.virtual import run_virtual
from flo.client.session.session import Session
from flo.client.workers import Workers
from flo.model.errors import Conflict, Invalid
from flo.model.runs import Touch
from flo.worker.actions.context import ActionContext
from flo.worker.outcome import ActionResult, NonRetryableError
from worker.task_server import TaskServer, task


class Order(msgspec.Struct):
    id: int


@pytest.fixture
async def context() -> ActionContext:
    return ActionContext(task(3, payload=b'{"id":7}', attempt=2), "prod", "anna", None)


async def test_it_knows_its_task(context: ActionContext) -> None:
    assert (context.task_id, context.action_name, context.attempt) == ("a-3", "a", 2)
    assert context.payload == context.input == b'{"id":7}'
    assert context.namespace == "prod"
    assert context.created_at == datetime.fromtimestamp(1_790_000_000, UTC)
    assert context.cancelled is False


async def test_it_reads_the_input_and_writes_results(context: ActionContext) -> None:
    assert context.json() == {"id": 7}
    assert context.into(Order) == Order(7)
    assert context.to_bytes({"ok": True}) == b'{"ok":true}'
    assert context.result("approved", {"id": 7}) == ActionResult("approved", {"id": 7})


async def test_a_result_that_cannot_be_sent_is_not_worth_another_attempt(
    context: ActionContext,
) -> None:
    with pytest.raises(NonRetryableError, match=r"output\.price is NaN") as raised:
        context.to_bytes({"price": float("nan")})

    assert raised.value.code == "number_not_finite"


async def test_an_input_that_cannot_be_read_is_not_worth_another_attempt() -> None:
    broken = ActionContext(task(payload=b"{"), "default", "anna", None)

    with pytest.raises(NonRetryableError, match="input"):
        broken.json()


def touching(server: TaskServer) -> tuple[ActionContext, Session]:
    session = Session(server.connect, "flo:9000")
    return ActionContext(task(attempt=2), "prod", "anna", Workers(session, "prod")), session


def test_an_async_handler_awaits_a_touch() -> None:
    async def main() -> None:
        server = TaskServer()
        context, session = touching(server)
        await context.touch(5_000)
        await session.close()

        assert server.heard(Touch) == [
            Touch(run_id="a-1", worker_id="anna", namespace="prod", attempt=2, extend_ms=5_000)
        ]

    run_virtual(main())


async def test_in_a_thread_a_touch_has_happened_when_it_returns() -> None:
    server = TaskServer()
    context, session = touching(server)

    def handler() -> int:
        assert threading.current_thread() is not threading.main_thread()
        context.touch(5_000)
        return len(server.heard(Touch))

    assert await asyncio.to_thread(handler) == 1
    await session.close()


async def test_a_lost_lease_is_raised_to_whoever_touches() -> None:
    server = TaskServer()
    server.answers[Touch] = Conflict("the lease is lost", code="lease_lost")
    context, session = touching(server)

    with pytest.raises(Conflict, match="lost"):
        await context.touch()
    with pytest.raises(Conflict, match="lost"):
        await asyncio.to_thread(context.touch)
    await session.close()


@pytest.mark.parametrize("extend_ms", [0, -1, 3_600_001])
async def test_a_touch_of_no_sense_names_its_argument(
    context: ActionContext, extend_ms: int
) -> None:
    with pytest.raises(Invalid, match=f"expected extend_ms from 1 to 3600000, got {extend_ms}"):
        context.touch(extend_ms)
