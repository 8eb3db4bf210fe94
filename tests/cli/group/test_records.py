import json

import pytest

from cli.servers import ServerClock, running_server

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""

GROUP = "orders -g billing"
ONE = f"{GROUP} -c worker-1"
OTHER = f"{GROUP} -c worker-2"


@pytest.fixture
def ids(client):
    """The ids of three records: 1 to 3."""
    for number in range(1, 4):
        client.streams.append("orders", b"%d" % number)
    return [record.stream_id for record in client.streams.read("orders").items]


@pytest.fixture
def group(client):
    return client.streams.group("orders", "billing")


def test_a_consumer_takes_one_record_at_a_time(shell, ids):
    assert shell(f"flo stream group read {ONE}") == (0, f"{ids[0]} [hot]: 1\n", "")
    assert shell(f"flo stream group read {OTHER}").out == f"{ids[1]} [hot]: 2\n"


def test_who_reads_joins_and_creates_what_is_not_there(shell, client):
    assert shell("flo stream group read orders billing worker-1") == (0, "No records\n", "")
    assert client.streams.info("orders").groups == ["billing"]


def test_a_consumer_may_take_more(shell, ids):
    assert shell(f"flo stream group read {ONE} -l 10 -o raw").out == "1\n2\n3\n"
    assert shell(f"flo stream group read {ONE} --block 1 -o raw").out == ""


def test_records_for_programs_say_how_often_they_were_handed_out(shell, client, ids, group):
    group.read("worker-1", limit=1)
    group.nack(ids[:1])

    taken = json.loads(shell(f"flo stream cg read {ONE} -l 2 --format json").out)

    assert [(one["id"], one["data"], one["deliveries"]) for one in taken] == [
        (ids[0], 1, 2),
        (ids[1], 2, 1),
    ]
    assert json.loads(shell(f"flo stream cg read {ONE} -l 2 -o json").out)[0]["id"] == ids[2]
    assert shell(f"flo stream cg read {ONE} -o json").out == "[]\n"


def test_people_see_when_a_record_is_handed_out_again(shell, ids, group):
    group.read("worker-1", limit=1)
    group.nack(ids[:1])

    assert shell(f"flo stream group read {ONE}").out == f"{ids[0]} [hot]: 1 (delivery 2)\n"


def test_a_read_creates_the_group_as_the_flags_say(shell, ids, group):
    shell(f"flo stream group read {ONE} --mode exclusive --ack-timeout 5000")

    settings = group.info().settings
    assert settings.mode == "exclusive"
    assert settings.ack_timeout_ms == 5_000


def test_the_settings_of_a_group_that_is_there_stay(shell, ids, group):
    group.create(max_deliveries=3)

    assert shell(f"flo stream group read {ONE} --max-deliver 7").code == 0
    assert group.info().settings.max_deliveries == 3


def test_settings_that_are_refused_are_told(shell, ids):
    printed = shell(f"flo stream group read {ONE} --slots 0")

    assert printed.code == 2
    assert "slots" in printed.err


def test_records_are_acked(shell, ids, group):
    group.read("worker-1", limit=2)

    assert shell(f"flo stream group ack {ONE} --ids {ids[0]},{ids[1]}") == (
        0,
        "Acked 2 records\n",
        "",
    )
    assert group.info().pending == 0


def test_ids_that_are_not_under_way_are_passed_over(shell, ids, group):
    group.read("worker-1", limit=1)

    assert shell(f"flo stream group ack {GROUP} -i {ids[0]},{ids[2]},9-9").out == (
        "Acked 1 record\n"
    )
    assert json.loads(shell(f"flo stream group ack {GROUP} -i {ids[0]} -o json").out) == {
        "count": 0
    }
    assert shell(f"flo stream group ack {GROUP} -i {ids[0]} -o raw").out == "0\n"


@pytest.mark.parametrize("verb", ["ack", "nack", "touch"])
def test_an_id_that_is_none_is_refused(shell, ids, group, verb):
    group.join("worker-1")

    printed = shell(f"flo stream group {verb} {ONE} --ids first")

    assert printed.code == 3
    assert "[invalid_stream_id]" in printed.err


@pytest.mark.parametrize("verb", ["ack", "nack", "touch"])
def test_the_ids_are_needed(shell, verb):
    printed = shell(f"flo stream group {verb} {ONE}")

    assert printed.code == 2
    assert "--ids" in printed.err


def test_nacked_records_are_handed_out_again(shell, ids, group):
    group.read("worker-1", limit=1)

    assert shell(f"flo stream group nack {ONE} -i {ids[0]}") == (0, "Nacked 1 record\n", "")
    assert [record.stream_id for record in group.read("worker-2", limit=1).items] == ids[:1]


def test_nacked_records_may_rest(shell, ids, group):
    group.read("worker-1", limit=1)

    shell(f"flo stream group nack {ONE} -i {ids[0]} --delay 3600000")

    assert [record.stream_id for record in group.read("worker-2").items] == ids[1:]
    assert group.info().waiting == 1


def test_a_nack_may_mean_only_what_one_consumer_has(shell, ids, group):
    group.read("worker-1", limit=1)

    assert shell(f"flo stream group nack {OTHER} -i {ids[0]}").out == "Nacked 0 records\n"
    assert shell(f"flo stream group nack {GROUP} -i {ids[0]}").out == "Nacked 1 record\n"


def test_a_consumer_gets_more_time(shell, ids, group):
    group.read("worker-1", limit=1)
    before_ms = group.pending().items[0].until_ms

    assert shell(f"flo stream group touch {ONE} -i {ids[0]} --extend 3600000") == (
        0,
        "Touched 1 record\n",
        "",
    )
    assert group.pending().items[0].until_ms > before_ms + 3_000_000
    assert shell(f"flo stream group touch {OTHER} -i {ids[0]}").out == "Touched 0 records\n"


def test_what_is_under_way_is_listed(shell, ids, group):
    assert shell(f"flo stream group read {ONE}").code == 0
    assert shell(f"flo stream group read {OTHER} -l 2").code == 0

    heading, *rows = shell(f"flo stream group pending {GROUP}").out.splitlines()

    assert heading.split() == ["ID", "CONSUMER", "DELIVERIES", "DELIVERED", "UNTIL"]
    assert [row.split()[:3] for row in rows] == [
        [ids[0], "worker-1", "1"],
        [ids[1], "worker-2", "1"],
        [ids[2], "worker-2", "1"],
    ]
    assert shell(f"flo stream group pending {OTHER} -o raw").out.split() == ids[1:]


def test_what_is_under_way_comes_in_pages_and_in_json(shell, ids, group):
    group.read("worker-1")

    assert shell(f"flo stream group pending {GROUP} -l 2 -o raw") == (
        0,
        f"{ids[0]}\n{ids[1]}\n",
        f"There are more: add --cursor {ids[1]}\n",
    )
    assert shell(f"flo stream group pending {GROUP} --cursor {ids[1]} -o raw").out.split() == [
        ids[2]
    ]
    first = json.loads(shell(f"flo stream group pending {GROUP} --format json").out)[0]
    assert first["stream_id"] == ids[0]
    assert first["consumer"] == "worker-1"
    assert first["deliveries"] == 1


def test_nothing_may_be_under_way(shell, group):
    group.join("worker-1")

    assert shell(f"flo stream group pending {GROUP}").out == "(no pending records)\n"


def test_a_consumer_gets_its_own_records_again(shell, ids, group):
    group.read("worker-1")

    assert shell(f"flo stream group claim {ONE} --limit 2 -o raw") == (
        0,
        "1\n2\n",
        f"There are more: add --start {ids[1]}\n",
    )
    assert shell(f"flo stream group claim {ONE} --start {ids[1]} -o raw") == (0, "3\n", "")
    assert shell(f"flo stream group claim {OTHER}").out == "No records\n"


def test_a_consumer_takes_over_what_another_has_had_for_too_long(shell, monkeypatch):
    clock = ServerClock(TEN_O_CLOCK_MS)
    with running_server(clock) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        shell("flo stream append orders 1")
        shell(f"flo stream group read {ONE}")
        clock.let_pass(30_000)

        assert shell(f"flo stream group claim {OTHER} --min-idle 30001").out == "No records\n"
        assert shell(f"flo stream group claim {OTHER} --min-idle 30000").out == (
            f"{TEN_O_CLOCK_MS}-1 [hot]: 1 (delivery 2)\n"
        )
        assert shell(f"flo stream group pending {GROUP}").out.splitlines() == [
            "ID               CONSUMER  DELIVERIES  DELIVERED                  UNTIL",
            "1773482400000-1  worker-2  2           2026-03-14 10:00:30+00:00  "
            "2026-03-14 10:01:30+00:00",
        ]
