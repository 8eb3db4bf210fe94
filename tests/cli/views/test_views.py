"""What is seen over all actions and workflows, by the real command line."""

import json
from types import SimpleNamespace

import pytest

from cli.servers import deploy_order
from flo.cli.views.top import Sample, frame_of, text_of

NOW_S = 1_773_489_600.0


@pytest.fixture
def failed(client):
    """A dead letter of each of two actions, a run that waits, and one of a workflow."""
    for name in ("email", "ship"):
        client.actions.register(name)
        run_id = client.actions.invoke(name).run_id
        client.workers.claim("worker-1", [name])
        client.workers.fail(run_id, "worker-1", f"no {name}", code=f"no_{name}")
    client.actions.invoke("ship", delay_ms=60_000)
    deploy_order(client)
    client.workflows.start("order", {"customer": "42"})
    return client


@pytest.mark.usefixtures("failed")
def test_runs_of_actions_and_workflows_are_one_list_the_newest_first(shell):
    runs = json.loads(shell("flo runs --format json").out)

    assert [run["created_at_ms"] for run in runs] == sorted(
        (run["created_at_ms"] for run in runs), reverse=True
    )
    assert {(run["kind"], run["name"]) for run in runs} == {
        ("action", "email"),
        ("action", "ship"),
        ("action", "charge"),
        ("workflow", "order"),
    }


@pytest.mark.usefixtures("failed")
def test_runs_are_chosen_by_what_is_said(shell):
    assert set(shell("flo runs --failed --since 1h -o raw").out.split()) == {"email-1", "ship-1"}
    assert shell("flo runs --failed --action ship -o raw").out == "ship-1\n"
    assert shell("flo runs --workflow order -o raw").out == "wfrun-1\n"
    assert shell("flo runs --failed --since 2100-01-01").out == "(no runs)\n"
    assert len(shell("flo runs --limit 2 -o raw").out.split()) == 2


def test_runs_beyond_a_page_are_found(shell, client):
    client.actions.register("email")
    client.actions.invoke_many("email", [None] * 250)

    assert len(shell("flo runs --limit 230 -o raw").out.split()) == 230


@pytest.fixture
def dead_record(failed):
    """And a record that a group has given up."""
    failed.streams.create("orders")
    group = failed.streams.group("orders", "billing")
    group.create(max_deliveries=1)
    group.join("worker-1")
    failed.streams.append("orders", {"order": 1})
    (record,) = group.read("worker-1").items
    group.nack([record.stream_id], consumer="worker-1")
    group.read("worker-1")
    return failed


@pytest.mark.usefixtures("dead_record")
def test_dead_letters_of_groups_are_among_them(shell):
    listed = json.loads(shell("flo dlq list --stream orders --format json").out)

    assert [(dead["kind"], dead["owner"]) for dead in listed] == [("group", "orders/billing")]
    assert len(json.loads(shell("flo dlq list --format json").out)) == 3
    assert shell("flo dlq requeue --all").out == "Requeued 3 dead letters\n"
    assert shell("flo dlq list").out == "(no dead letters)\n"


@pytest.mark.usefixtures("failed")
def test_dead_letters_of_all_actions_are_listed_and_requeued(shell, client):
    listed = json.loads(shell("flo dlq list --format json").out)

    assert [(dead["owner"], dead["id"]) for dead in listed] == [
        ("email", "email-1"),
        ("ship", "ship-1"),
    ]
    assert shell("flo dlq requeue --all --code no_ship").out == "Requeued 1 dead letter\n"
    assert client.actions.status("ship-1").status == "pending"
    assert shell("flo dlq requeue email-1").out == "Requeued 1 dead letter\n"
    assert shell("flo dlq list").out == "(no dead letters)\n"


@pytest.mark.usefixtures("failed")
def test_dead_letters_of_all_actions_are_forgotten(shell):
    assert shell("flo dlq purge --all --yes").out == "Purged 2 dead letters\n"
    assert shell("flo dlq list").out == "(no dead letters)\n"


@pytest.mark.usefixtures("failed")
def test_which_dead_letters_are_meant_has_to_be_said(shell):
    assert "name the runs, or say --all" in shell("flo dlq requeue").err


@pytest.mark.usefixtures("failed")
def test_one_picture_shows_queues_workers_and_what_fails(shell):
    shown = shell("flo top --once --interval 0.1").out

    assert "ACTION" in shown
    assert "FAILED LAST" in shown
    assert "no_email" in shown
    frame = json.loads(shell("flo top --once --interval 0.1 --format json").out)
    assert {line["action"]: line["pending"] for line in frame["actions"]}["ship"] == 1


def sampled(at_s, **counts):
    zero = dict.fromkeys(("pending", "running", "completed", "failed", "cancelled", "timed_out"), 0)
    run = SimpleNamespace(
        run_id="ship-9",
        action="ship",
        took_ms=40,
        started_at_ms=NOW_S * 1_000 - 90_000,
        attempt=2,
        worker_id="anna",
    )
    return Sample(at_s, {"ship": zero | counts}, [], [run], [run], [])


def test_rates_are_what_has_changed_in_the_time_between():
    before = sampled(NOW_S - 2, pending=10, running=2, completed=100, failed=1)
    now = sampled(NOW_S, pending=4, running=2, completed=140, failed=5)

    frame = frame_of(before, now)

    (line,) = frame.actions
    assert (line.queued_per_s, line.ended_per_s, line.failed_per_s) == (19, 22, 2)
    assert (line.average_ms, line.longest_ms) == (40, 40)
    assert frame.longest[0]["running_ms"] == 90_000
    assert "19.0 queued/s, 22.0 ended/s, 2.0 failed/s" in text_of(frame, "flo top")


def test_a_server_that_was_restarted_shows_no_negative_rate():
    before, now = sampled(NOW_S - 2, completed=100), sampled(NOW_S, completed=3)

    assert frame_of(before, now).actions[0].ended_per_s == 0
