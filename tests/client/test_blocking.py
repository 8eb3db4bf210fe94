import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.threaded import server_in_thread
from flo import BlockingFlo, NotFound, RunStatus, Unavailable


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with server_in_thread(tmp_path) as address:
        yield address


def test_a_script_invokes_and_gets_a_result(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.ping()
        flo.actions.register("add", max_retries=0)
        invocation = flo.actions.invoke("add", [1, 2], priority=20)
        assert str(invocation) == "add-1"
        assert invocation.status().status is RunStatus.PENDING

        (task,) = flo.workers.claim("anna", ["add"]).tasks
        flo.workers.complete(task.task_id, "anna", sum([1, 2]), attempt=task.attempt)
        assert invocation.result(int) == flo.actions.result("add-1", int) == 3
        assert invocation.wait(5.0).status is RunStatus.COMPLETED


def test_many_invocations_are_blocking_ones_too(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.actions.register("a")
        first, second = flo.actions.invoke_many("a", [1, 2])

        assert (first.status().input, second.status().input) == (b"1", b"2")


def test_errors_are_raised_where_the_call_was_made(address: str) -> None:
    with BlockingFlo(address) as flo, pytest.raises(NotFound):
        flo.actions.get("missing")


def test_several_threads_may_share_one_client(address: str) -> None:
    with BlockingFlo(address) as flo, ThreadPoolExecutor(4) as threads:
        flo.actions.register("a")
        run_ids = {one.run_id for one in threads.map(flo.actions.invoke, ["a"] * 50)}

        assert len(run_ids) == 50


def test_a_closed_client_says_so(address: str) -> None:
    flo = BlockingFlo(address)
    flo.ping()
    flo.close()
    flo.close()

    with pytest.raises(Unavailable, match="closed"):
        flo.ping()


def test_a_client_that_cannot_connect_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(Unavailable), BlockingFlo("127.0.0.1:1"):
        pass

    assert threading.active_count() == before
