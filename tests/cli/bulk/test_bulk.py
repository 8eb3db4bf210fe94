"""The same is done to many runs, as a job that can be gone on with."""

import json

import pytest

from cli.servers import deploy_order
from flo.cli.bulk.jobs import SLICE, BulkJob, BulkProgress, carry_out, keep, kept
from flo.model.errors import Conflict, Unavailable


@pytest.fixture
def orders(client):
    """Three workflow runs that have failed at their first step, and one that waits for it."""
    deploy_order(client)
    for number in range(3):
        client.workflows.start("order", {"customer": str(number)})
        (task,) = client.workers.claim("worker-1", ["charge"]).tasks
        client.workers.fail(task.task_id, "worker-1", "the bank is closed")
    client.workflows.start("order", {"customer": "9"})
    return client


def statuses(client):
    return {run.run_id: str(run.status) for run in client.workflows.runs().items}


@pytest.mark.usefixtures("orders")
def test_a_preview_shows_what_it_would_be_done_to_and_does_nothing(shell, client):
    before = statuses(client)

    shown = shell("flo bulk rerun --failed --since 1d --preview").out

    assert "rerun: 3 runs" in shown
    assert "3  workflow order" in shown
    assert statuses(client) == before
    assert shell("flo bulk list").out == "(no bulk jobs)\n"


@pytest.mark.usefixtures("orders")
def test_all_that_have_failed_are_run_again_once(shell, client):
    done = shell("flo bulk rerun --failed --from-failed-step --job again --format json").out

    assert json.loads(done)["done"] == 3
    assert len(statuses(client)) == 7
    assert "3 of 3" in shell("flo bulk list").out
    assert "3 of 3 runs, 0 refused" in shell("flo bulk resume again").out
    assert len(statuses(client)) == 7


@pytest.mark.usefixtures("orders")
def test_the_command_for_one_run_takes_filters_instead(shell, client):
    shown = shell("flo workflow rerun --failed --since 1d --from-failed-step").out

    assert "3 of 3 runs, 0 refused" in shown
    assert "wfrun-8" in shell("flo workflow rerun wfrun-1").out
    assert "name one run, or choose" in shell("flo workflow rerun wfrun-1 --failed").err
    assert "name a run, or choose" in shell("flo workflow rerun").err
    assert "are for one run" in shell("flo workflow rerun --failed --from ship").err


@pytest.mark.usefixtures("orders")
def test_a_second_job_of_the_same_name_is_refused(shell):
    shell("flo bulk rerun --failed --job again")

    assert shell("flo bulk rerun --failed --job again").code == 3


@pytest.mark.usefixtures("orders")
def test_all_that_have_not_ended_are_cancelled(shell, client):
    done = json.loads(shell("flo bulk cancel --workflow order --reason wrong --format json").out)

    assert (done["done"], done["refused"]) == (1, {})
    assert "running" not in statuses(client).values()
    assert "waiting" not in statuses(client).values()


@pytest.mark.usefixtures("orders")
def test_dead_letters_are_requeued_and_what_is_none_is_told(shell, client):
    done = json.loads(shell("flo bulk requeue --action charge --format json").out)

    assert done["done"] == 3
    assert client.actions.status("charge-1").status == "pending"


def test_runs_that_wait_are_signalled(shell, client):
    deploy_order(client)
    run = client.workflows.start("order", {"customer": "1"})
    (task,) = client.workers.claim("worker-1", ["charge"]).tasks
    client.workers.complete(task.task_id, "worker-1", {"charged": 7})

    shown = shell('flo bulk signal --type approval \'{"by": "anna"}\'').out

    assert "1 of 1 runs, 0 refused" in shown
    assert run.result() == {"charged": 7, "by": "anna"}


def test_a_job_that_was_cut_off_goes_on_and_nothing_is_done_twice(client):
    """Cut off between any two runs: before, inside and after a slice."""
    client.actions.register("email")
    ids = [one.run_id for one in client.actions.invoke_many("email", [None] * (SLICE + 3))]
    job = BulkJob(
        job="cut", operation="cancel", runs=[("action", run_id) for run_id in ids], made_at_ms=1
    )
    keep(client, job)
    for cut in (0, 3, SLICE, SLICE + 1):
        with pytest.raises(Unavailable):
            carry_out(client, *kept(client, "cut"), tell=Cut(cut))

    done = carry_out(client, *kept(client, "cut"))

    assert (done.count, done.refused) == (len(ids), {})
    assert {str(client.actions.status(run_id).status) for run_id in ids} == {"cancelled"}


class Cut:
    """Cuts a job off when so many runs are done."""

    def __init__(self, count):
        self.count = count

    def __call__(self, count):
        if count > self.count:
            raise Unavailable("cut off")


def test_without_its_key_a_run_is_asked_for_twice_and_refuses(client):
    """The control: what the keys of a job are for."""
    client.actions.register("email")
    run_id = client.actions.invoke("email").run_id
    done = []
    for name in ("one", "other"):
        job = BulkJob(job=name, operation="cancel", runs=[("action", run_id)], made_at_ms=1)
        done.append(carry_out(client, job, BulkProgress()))

    assert [len(one.refused) for one in done] == [0, 1]


def test_a_job_is_written_once(client):
    job = BulkJob(job="x", operation="cancel", runs=[], made_at_ms=1)
    keep(client, job)

    with pytest.raises(Conflict):
        keep(client, job)
