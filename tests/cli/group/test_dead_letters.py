import json
import os
import pty
import subprocess
import sys

import pytest

GROUP = "orders -g billing"


@pytest.fixture
def ids(client):
    """Three dead letters, and a fourth record that is new."""
    group = client.streams.group("orders", "billing")
    for number in range(1, 5):
        client.streams.append("orders", b"%d" % number, headers={"n": f"{number}"})
    group.create(max_deliveries=1)
    taken = group.read("worker-1", limit=3).items
    group.nack(taken)
    group.read("worker-1", limit=3)
    return [record.stream_id for record in taken]


def dead(client):
    return client.streams.group("orders", "billing").info().dead


def test_dead_letters_are_listed_the_newest_first(shell, ids):
    heading, *rows = shell(f"flo stream group dead-letters {GROUP}").out.splitlines()

    assert heading.split() == ["ID", "DELIVERIES", "DIED", "PAYLOAD"]
    assert [[row.split()[0], row.split()[1], row.split()[-1]] for row in rows] == [
        [ids[2], "1", "3"],
        [ids[1], "1", "2"],
        [ids[0], "1", "1"],
    ]


def test_dead_letters_come_in_pages(shell, ids):
    printed = shell(f"flo stream group dead-letters {GROUP} -l 2 -o raw")

    assert printed.out.split() == [ids[2], ids[1]]
    cursor = printed.err.split()[-1]
    assert shell(f"flo stream group dead-letters {GROUP} --cursor {cursor} -o raw").out.split() == [
        ids[0]
    ]


def test_dead_letters_in_json_are_whole_records(shell, ids):
    dead = json.loads(shell(f"flo stream group dead-letters {GROUP} --format json").out)

    assert [one["id"] for one in dead] == ids[::-1]
    assert dead[0]["data"] == 3
    assert dead[0]["headers"] == {"n": "3"}
    assert dead[0]["deliveries"] == 1
    assert dead[0]["died_at"] > 0


def test_a_group_may_have_no_dead_letters(shell, client):
    client.streams.group("orders", "billing").join("worker-1")

    for verb in ("dead-letters", "requeue --all", "purge --all"):
        assert shell(f"flo stream group {verb} {GROUP}").out == "(no dead letters)\n"


def test_some_dead_letters_are_requeued(shell, client, ids):
    assert shell(f"flo stream group requeue {GROUP} --ids {ids[0]},{ids[2]}") == (
        0,
        "Requeued 2 records\n",
        "",
    )
    assert dead(client) == 1
    taken = client.streams.group("orders", "billing").read("worker-2", limit=2)
    assert [record.stream_id for record in taken.items] == [ids[0], ids[2]]


def test_all_dead_letters_are_requeued(shell, client, ids):
    printed = shell(f"flo stream group requeue {GROUP} --all --format json")

    assert sorted(json.loads(printed.out)["ids"]) == sorted(ids)
    assert dead(client) == 0


def test_more_dead_letters_than_one_command_may_change(shell, client):
    group = client.streams.group("orders", "billing")
    client.streams.append_many("orders", [b"%d" % number for number in range(1_200)])
    group.create(max_deliveries=1)
    for _ in range(2):
        group.nack(group.read("worker-1", limit=1_000).items)
    while group.info().dead < 1_200:
        group.nack(group.read("worker-1", limit=1_000).items)

    assert shell(f"flo stream group purge {GROUP} --all").out == "Purged 1200 records\n"
    assert group.info().dead == 0


def test_some_dead_letters_are_purged(shell, client, ids):
    assert shell(f"flo stream group purge {GROUP} -i {ids[1]}") == (0, "Purged 1 record\n", "")
    assert shell(f"flo stream group dead-letters {GROUP} -o raw").out.split() == [ids[2], ids[0]]


def test_all_dead_letters_are_purged(shell, client, ids):
    assert shell(f"flo stream group purge {GROUP} -a -y -o raw").out.split() == ids[::-1]
    assert dead(client) == 0


@pytest.mark.parametrize("verb", ["requeue", "purge"])
@pytest.mark.parametrize("rest", ["", "--ids 1-1 --all"])
def test_the_dead_letters_are_named_or_all_are_meant(shell, client, ids, verb, rest):
    printed = shell(f"flo stream group {verb} {GROUP} {rest}")

    assert printed.code == 2
    assert "name the dead letters with --ids, or say --all" in printed.err
    assert dead(client) == 3


@pytest.mark.parametrize("verb", ["requeue", "purge"])
def test_a_record_that_is_no_dead_letter_is_not_found(shell, client, ids, verb):
    printed = shell(f"flo stream group {verb} {GROUP} --ids {ids[0]},9-9")

    assert printed.code == 1
    assert "[dead_letter_not_found]" in printed.err
    assert printed.err.endswith("flo stream group dead-letters orders billing\n")
    assert dead(client) == 3


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 2), (b"\n", 130, 3)])
@pytest.mark.usefixtures("environment")
def test_on_a_terminal_a_purge_asks_first(client, ids, answer, code, left):
    terminal, end = pty.openpty()
    command = ["stream", "group", "purge", "orders", "billing", "--ids", ids[0]]
    with subprocess.Popen(
        [sys.executable, "-m", "flo.cli.app.main", *command],
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as purging:
        os.close(end)
        os.write(terminal, answer)
        _, err = purging.communicate()

    os.close(terminal)
    assert purging.returncode == code
    assert f"Forget {ids[0]} of group 'billing' for good? [y/N]".encode() in err
    assert dead(client) == left
