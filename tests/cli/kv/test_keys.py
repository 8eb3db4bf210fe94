import io
import json
import os
import subprocess
import sys

import pytest

from cli.servers import ServerClock, running_server, until_asked

FLO = [sys.executable, "-m", "flo.cli.app.main"]

NO_SUCH_KEY = (
    1,
    "",
    "Error: key 'nobody' does not exist [key_not_found]\nSee which there are with: flo kv list\n",
)


def value(client, key):
    return client.kv.get(key).value


def test_a_value_is_set_and_got(shell):
    assert shell("""flo kv set user:1 '{"name":"Alice"}'""") == (0, "OK\n", "")
    assert shell("flo kv get user:1") == (0, '{"name":"Alice"}\n', "")


def test_a_value_comes_from_stdin_or_a_file(shell, client, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))
    (tmp_path / "value").write_bytes(b"\xfe\n")

    shell("flo kv set a -")
    shell(f"flo kv set b @{tmp_path}/value")

    assert value(client, "a") == b"\x00\xff"
    assert value(client, "b") == b"\xfe\n"


def test_a_value_may_begin_with_a_dash(shell, client):
    assert shell("flo kv set a -- -5").code == 0
    assert value(client, "a") == b"-5"


def test_a_raw_value_is_its_bytes(shell, client):
    client.kv.put("a", b"\xff\n")

    assert shell("flo kv get a -o raw").out == "\udcff\n"
    assert shell("flo kv get a").out == "/wo= (base64)\n"


def test_a_value_cannot_move_the_cursor(shell, client):
    client.kv.put("a", b"\x1b[2Jgone")

    assert shell("flo kv get a").out == "\\x1b[2Jgone\n"


@pytest.mark.parametrize(
    ("stored", "shown", "encoding"),
    [
        (b'{"a": 1}', {"a": 1}, "json"),
        (b"hello", "hello", "text"),
        (b"\xff", "/w==", "base64"),
        (b"", "", "text"),
    ],
)
def test_a_value_for_programs(shell, client, stored, shown, encoding):
    version = client.kv.put("a", stored)

    assert json.loads(shell("flo kv get a --format json").out) == {
        "key": "a",
        "value": shown,
        "value_encoding": encoding,
        "version": version,
        "expires_at": None,
    }


@pytest.mark.parametrize(
    "verb", ["get", "history", "persist", "touch --ttl 1", "json-get", "json-del"]
)
def test_a_key_that_does_not_exist_is_not_found(shell, verb):
    assert shell(f"flo kv {verb} nobody") == NO_SUCH_KEY


def test_a_version_is_told_to_programs(shell, client):
    version = client.kv.put("a", b"1")

    assert json.loads(shell("flo kv set a 2 --format json").out) == {
        "key": "a",
        "version": version + 1,
    }
    assert shell("flo kv set a 3 -o raw").out == f"{version + 2}\n"


def test_a_value_may_be_set_only_if_the_key_does_not_exist(shell, client):
    assert shell("flo kv set lock worker-1 --nx").code == 0

    again = shell("flo kv set lock worker-2 --nx")

    assert again == (3, "", "Error: key 'lock' exists [condition_failed]\n")
    assert value(client, "lock") == b"worker-1"


def test_a_value_may_be_set_only_if_the_key_exists(shell, client):
    assert shell("flo kv set a 1 --xx").err == "Error: key 'a' does not exist [condition_failed]\n"
    client.kv.put("a", b"1")
    assert shell("flo kv set a 2 --xx").code == 0
    assert value(client, "a") == b"2"


def test_a_value_may_be_set_only_over_one_version(shell, client):
    assert shell("flo kv set a 1 --cas 0").code == 0
    version = client.kv.get("a").version
    assert shell(f"flo kv set a 2 --cas {version}").code == 0

    late = shell(f"flo kv set a 3 --cas {version}")

    assert late.code == 3
    assert "[version_mismatch]\nSee what it is now with: flo kv get a" in late.err
    assert value(client, "a") == b"2"


def test_a_value_expires(shell, monkeypatch):
    clock = ServerClock()
    with running_server(clock) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        for key in "abc":
            shell(f"flo kv set {key} 1 --ttl 60")
        shown = json.loads(shell("flo kv get a --format json").out)
        assert shown["expires_at"] == clock.now_ms() + 60_000
        assert shell("flo kv touch b --ttl 3600") == (0, "OK\n", "")
        assert shell("flo kv persist c") == (0, "OK\n", "")

        clock.let_pass(60_000)
        assert shell("flo kv list -o raw").out == "b\nc\n"

        clock.let_pass(3_540_000)
        assert shell("flo kv list -o raw").out == "c\n"


@pytest.mark.parametrize("ttl", ["0", "-1", "soon"])
def test_a_ttl_is_in_seconds_and_more_than_none(shell, ttl):
    printed = shell(f"flo kv set a 1 --ttl {ttl}")

    assert printed.code == 2
    assert "--ttl" in printed.err


def test_a_touch_and_a_persist_in_json(shell, client):
    client.kv.put("a", b"1")

    assert json.loads(shell("flo kv touch a --ttl 1.5 --format json").out) == {
        "key": "a",
        "ttl_ms": 1_500,
    }
    assert client.kv.get("a").expires_at_ms is not None
    assert json.loads(shell("flo kv persist a --format json").out) == {"key": "a", "ttl_ms": None}
    assert client.kv.get("a").expires_at_ms is None


def test_several_values_at_once(shell, client):
    one = client.kv.put("a", b"1")
    two = client.kv.put("b", b"two words")

    assert shell("flo kv mget a nobody b").out.splitlines() == [
        "KEY     VERSION  VALUE",
        f"a       {one}        1",
        "nobody  -        -",
        f"b       {two}        two words",
    ]
    assert shell("flo kv mget a nobody b -o raw").out == "1\n\ntwo words\n"
    shown = json.loads(shell("flo kv mget a nobody --format json").out)
    assert [(item["key"], item["value"], item["version"]) for item in shown] == [
        ("a", 1, one),
        ("nobody", None, 0),
    ]


@pytest.mark.parametrize("verb", ["delete", "del"])
def test_a_key_is_deleted(shell, client, verb):
    client.kv.put("a", b"1")

    assert shell(f"flo kv {verb} a") == (0, "Deleted key: a\n", "")
    assert value(client, "a") is None
    assert shell(f"flo kv {verb} a") == (0, "(no such key)\n", "")


def test_a_delete_in_json_and_raw(shell, client):
    client.kv.put("a", b"1")

    assert json.loads(shell("flo kv delete a --format json").out) == {"key": "a", "existed": True}
    assert shell("flo kv delete a -o raw").out == "0\n"


def test_only_one_version_may_be_deleted(shell, client):
    version = client.kv.put("a", b"1")

    assert shell(f"flo kv delete a --cas {version + 1}").code == 3
    assert shell(f"flo kv delete a --cas {version}").code == 0


def test_keys_are_listed_in_order(shell, client):
    assert shell("flo kv list").out == "(no keys)\n"
    client.kv.put("user:2", b"Bob", ttl=3_600)
    client.kv.put("user:1", b"Alice")
    client.kv.put("order:1", b"{}")

    heading, *rows = shell("flo kv list --prefix user:").out.splitlines()

    assert heading.split() == ["KEY", "VERSION", "CHANGED", "EXPIRES"]
    assert [row.split()[0] for row in rows] == ["user:1", "user:2"]
    assert rows[0].endswith("  -")
    assert not rows[1].endswith("  -")


@pytest.mark.parametrize("verb", ["list", "ls", "scan"])
def test_keys_come_in_pages(shell, client, verb):
    for key in "abc":
        client.kv.put(key, b"1")

    assert shell(f"flo kv {verb} --limit 2 -o raw") == (
        0,
        "a\nb\n",
        "There are more: add --cursor b\n",
    )
    assert shell(f"flo kv {verb} --cursor b -o raw").out == "c\n"


def test_more_keys_than_fit_into_a_page(shell, client):
    for number in range(1_100):
        client.kv.put(f"{number:04}", b"")

    assert len(shell("flo kv list -l 2000 -o raw").out.split()) == 1_100


def test_keys_are_listed_with_their_values_if_asked(shell, client):
    client.kv.put("a", b'{"b": 1}')

    assert shell("flo kv list --values").out.splitlines()[1].endswith('  {"b": 1}')
    (whole,) = json.loads(shell("flo kv list --values --format json").out)
    assert whole["value"] == {"b": 1}
    (bare,) = json.loads(shell("flo kv list --format json").out)
    assert set(bare) == {"key", "version", "at_ms", "expires_at"}


@pytest.mark.parametrize("verb", ["history", "hist"])
def test_older_values_are_listed_the_newest_first(shell, client, verb):
    versions = [client.kv.put("a", b"%d" % number) for number in range(12)]

    heading, *rows = shell(f"flo kv {verb} a").out.splitlines()

    assert heading.split() == ["VERSION", "CHANGED", "VALUE"]
    assert [row.split()[0] for row in rows] == [str(one) for one in versions[:1:-1]]
    shown = json.loads(shell(f"flo kv {verb} a -l 1 --format json").out)
    assert [(one["version"], one["value"], one["value_encoding"]) for one in shown] == [
        (versions[-1], 11, "json")
    ]


def test_a_number_is_counted(shell, client):
    assert shell("flo kv incr visits") == (0, "1\n", "")
    assert shell("flo kv incr visits --by 41").out == "42\n"
    assert json.loads(shell("flo kv incr visits -b -2 --format json").out) == {
        "key": "visits",
        "value": 40,
    }
    assert shell("flo kv incr visits -o raw").out == "41\n"
    assert value(client, "visits") == b"41"


def test_what_is_no_number_is_not_counted(shell, client):
    client.kv.put("a", b"many")

    printed = shell("flo kv incr a")

    assert printed == (3, "", "Error: the value of 'a' is no whole number [wrong_type]\n")


def test_the_exit_code_says_whether_a_key_exists(shell, client):
    client.kv.put("a", b"")

    assert shell("flo kv exists a") == (0, "yes\n", "")
    assert shell("flo kv exists b") == (1, "no\n", "")
    assert json.loads(shell("flo kv exists b --format json").out) == {"key": "b", "exists": False}
    assert shell("flo kv exists a -o raw").out == "1\n"


def test_the_routing_key_is_accepted(shell):
    assert shell("flo kv set a 1 -r tenant-7").code == 0
    assert shell("flo kv get a --routing-key tenant-7").out == "1\n"


@pytest.mark.parametrize("flags", ["--wait", "--block 300000", "-w -b 300000"])
@pytest.mark.usefixtures("environment")
def test_a_get_waits_until_the_key_exists(client, server, namespace, flags):
    with subprocess.Popen(
        [*FLO, "kv", "get", "a", *flags.split()], stdout=subprocess.PIPE, env=os.environ
    ) as getting:
        until_asked(server, "key", namespace, "a")
        client.kv.put("a", b"1")

        assert getting.stdout.read() == b"1\n"
    assert getting.returncode == 0


def test_a_key_that_never_comes_is_not_found(shell):
    assert shell("flo kv get nobody --wait --block 1") == NO_SUCH_KEY


def test_a_get_waits_for_another_version(shell, client):
    version = client.kv.put("a", b"1")

    silent = shell(f"flo kv get a --newer-than {version} --block 1")
    assert silent.code == 4
    assert shell(f"flo kv get a --newer-than {version - 1}").out == "1\n"


def test_a_transaction_does_not_wait(shell):
    printed = shell("flo kv get a --wait --txn 1")

    assert printed.code == 2
    assert "--txn goes without --wait" in printed.err
