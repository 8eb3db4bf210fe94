import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from client.threaded import server_in_thread
from flo import (
    BlockingFlo,
    Conflict,
    NotFound,
    RunStatus,
    Unavailable,
)
from flo.client.proxies.proxy import PROXIES
from flo.model.actions import RegisterAction

APPROVAL = """
kind: Workflow
name: approval
version: "1"
schedule: {interval: 60000}
start:
  waitForSignal: {type: go, timeoutMs: 60000}
  transitions: {success: flo.Completed}
output: $.steps.start.output
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with server_in_thread(tmp_path) as address:
        yield address


def test_a_script_invokes_and_gets_a_result(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.ping()
        flo.call(RegisterAction(name="add", max_retries=0))
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


def test_runs_are_cancelled_and_dead_letters_requeued_and_purged(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.actions.register("a", max_retries=0, input_schema=dict[str, int])
        assert flo.actions.invoke("a", {"n": 1}).cancel("never mind").status == "cancelled"
        flo.actions.disable("a")
        flo.actions.enable("a")
        flo.actions.invoke("a", {"n": 2})
        (task,) = flo.workers.claim("anna", ["a"]).tasks
        flo.workers.fail(task.task_id, "anna", attempt=task.attempt)

        assert [run.run_id for run in flo.actions.dead("a").items] == ["a-2"]
        assert flo.actions.requeue("a") == ["a-2"]
        assert flo.actions.cancel("a-2").run_id == "a-2"
        assert flo.actions.purge("a") == []


def test_namespaces_and_notifications_have_blocking_forms_too(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.namespaces.create("prod")
        assert flo.namespaces.get("prod").name == "prod"
        assert len(flo.namespaces.list().items) == 2
        flo.namespaces.delete("prod")

        flo.workers.register("anna", ["a"], metadata={"version": "1"}, incarnation="first")
        flo.workers.drain("anna")
        assert flo.workers.await_notifications("anna").draining


def test_workflows_and_schedules_have_blocking_forms_too(address: str) -> None:
    with BlockingFlo(address) as flo:
        assert flo.workflows.create(APPROVAL).name == "approval"
        run = flo.workflows.start("approval", {"n": 1})
        assert (str(run), run.duplicate) == ("wfrun-1", False)
        assert repr(run) == "BlockingWorkflowHandle(run_id='wfrun-1', duplicate=False)"
        assert run.status().input == b'{"n":1}'
        run.signal("go", 7)
        assert run.result(int) == flo.workflows.result("wfrun-1", int) == 7
        first, *_, last = [entry.type for entry in run.history()]
        assert (first, last) == ("workflow_started", "workflow_completed")

        assert flo.workflows.rerun("wfrun-1").status().origin == "wfrun-1"
        flo.workflows.run("wfrun-2").cancel()
        assert flo.workflows.wait("wfrun-2").status == "cancelled"
        assert flo.schedules.run_now("approval").run_id == "wfrun-3"
        assert flo.schedules.get("approval").live_runs == 1
        assert flo.events.emit("prices-changed").results == 0
        with pytest.raises(NotFound, match="has no plan 'charge'; it has none"):
            flo.plans.get("approval", "charge")


def test_streams_and_their_groups_have_blocking_forms_too(address: str) -> None:
    with BlockingFlo(address) as flo:
        first = flo.streams.append("orders", {"n": 1}, key="alice")
        flo.streams.append_many("orders", [2, 3])
        page = flo.streams.read("orders", after=first.stream_id)
        assert [record.payload for record in page.items] == [b"2", b"3"]
        assert flo.streams.info("orders").count == 3

        group = flo.streams.group("orders", "billing")
        assert repr(group) == "BlockingConsumerGroup('orders', 'billing')"
        assert (group.stream, group.name) == ("orders", "billing")
        records = group.read("anna", limit=2)
        assert group.ack(records.items) == 2
        assert [one.name for one in flo.streams.groups("orders").items] == ["billing"]
        assert flo.streams.trim("orders", max_length=0).removed == 3
        flo.streams.delete("orders")
        assert flo.streams.list().items == []


def test_a_stream_is_followed_in_a_plain_loop(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.streams.append_many("orders", range(3))
        seen = []
        for record in flo.streams.follow("orders", after="0-0"):
            seen.append(record.payload)
            if record.payload == b"2":
                flo.streams.append("orders", 3)
            if record.payload == b"3":
                break

        assert seen == [b"0", b"1", b"2", b"3"]


def test_a_follower_may_be_left_behind_by_a_client_that_is_closed(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.streams.append("orders", 1)
        following = flo.streams.follow("orders", after="0-0")
        next(following)

    with pytest.raises(Unavailable, match="closed"):
        next(following)


def test_keys_have_blocking_forms_too(address: str) -> None:
    with BlockingFlo(address) as flo:
        version = flo.kv.put("a", {"n": 1})
        assert flo.kv.get_json("a", "$.n") == 1
        assert flo.kv.wait("a").version == version
        flo.kv.increment("b", 2)
        assert list(flo.kv.keys("")) == ["a", "b"]
        txn = flo.kv.begin().transaction
        flo.kv.put("c", 1, transaction=txn)
        flo.kv.rollback(txn)
        assert not flo.kv.exists("c")


def test_a_transaction_is_a_plain_block(address: str) -> None:
    with BlockingFlo(address) as flo:
        flo.kv.put("a", 1)
        flo.kv.put("gone", 1)
        with flo.kv.transaction() as txn:
            before = int(txn.get("a").value or 0)
            txn.put("b", before + 1)
            txn.increment("c", 7)
            txn.delete("gone")
        assert txn.result.values == {"c": 7}
        assert flo.kv.get_json("b") == 2
        assert not flo.kv.exists("gone")

        txn = flo.kv.transaction()
        txn.get("a")
        flo.kv.put("a", 2)
        with pytest.raises(Conflict):
            txn.commit()
        with suppress(LookupError), flo.kv.transaction() as txn:
            txn.put("never", 1)
            raise LookupError
        assert not flo.kv.exists("never")


@pytest.mark.parametrize("noun", PROXIES)
def test_every_method_has_a_blocking_form_with_the_same_arguments(noun: type) -> None:
    for name, method in vars(noun).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            blocking = getattr(PROXIES[noun], name)
            assert not inspect.iscoroutinefunction(blocking)
            assert inspect.signature(blocking) == inspect.signature(method)


def test_the_blocking_client_has_every_noun_of_the_client() -> None:
    flo = BlockingFlo()
    flo.close()
    nouns = {name: type(noun) for name, noun in vars(flo._flo).items() if name[0] != "_"}
    blocking = {name: type(noun) for name, noun in vars(flo).items() if name[0] != "_"}

    assert blocking == {name: PROXIES.get(noun, noun) for name, noun in nouns.items()}


def test_what_is_not_there_is_an_attribute_error() -> None:
    flo = BlockingFlo()
    flo.close()

    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        flo.actions.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute '_session'"):
        flo.actions._session  # noqa: B018


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
