import json

import pytest


@pytest.fixture
def txn(shell):
    return int(shell("flo kv begin -o raw").out)


def value(client, key):
    return client.kv.get(key).value


def test_changes_are_done_together_at_the_commit(shell, client, txn):
    client.kv.put("a", b"1")
    client.kv.put("b", b"5")

    assert shell(f"flo kv get a --txn {txn}").out == "1\n"
    assert shell(f"flo kv set c 3 -t {txn}") == (0, "OK\n", "")
    assert shell(f"flo kv delete a -t {txn}") == (0, "OK\n", "")
    assert shell(f"flo kv incr b --by 2 -t {txn}") == (0, "OK\n", "")
    assert [value(client, key) for key in "abc"] == [b"1", b"5", None]

    assert shell(f"flo kv commit {txn}") == (0, "Committed 3 changes\n", "")
    assert [value(client, key) for key in "abc"] == [None, b"7", b"3"]


def test_a_transaction_sees_its_own_changes(shell, client, txn):
    shell(f"flo kv set a 1 -t {txn}")

    assert shell(f"flo kv get a -t {txn} -o raw").out == "1"
    assert shell("flo kv get a").code == 1


def test_changes_in_a_transaction_have_no_version_yet(shell, txn):
    assert json.loads(shell(f"flo kv set a 1 -t {txn} --format json").out) == {
        "key": "a",
        "version": None,
    }
    assert json.loads(shell(f"flo kv incr b -t {txn} --format json").out)["value"] is None
    assert json.loads(shell(f"flo kv del c -t {txn} --format json").out)["existed"] is None
    assert shell(f"flo kv set a 1 -t {txn} -o raw").out == ""


def test_nothing_is_done_when_what_was_read_has_changed(shell, client, txn):
    client.kv.put("a", b"1")
    shell(f"flo kv get a -t {txn}")
    shell(f"flo kv set b 2 -t {txn}")
    client.kv.put("a", b"9")

    refused = shell(f"flo kv commit {txn}")

    assert refused.code == 3
    assert "[version_mismatch]" in refused.err
    assert value(client, "b") is None


def test_changes_are_forgotten_by_a_rollback(shell, client, txn):
    shell(f"flo kv set a 1 -t {txn}")

    assert shell(f"flo kv rollback {txn}") == (0, f"Rolled back transaction: {txn}\n", "")
    assert value(client, "a") is None
    assert shell(f"flo kv commit {txn}").code == 1


def test_a_transaction_is_named_as_an_argument_or_by_a_flag(shell, txn):
    assert shell(f"flo kv commit --txn {txn} -o raw").code == 0
    for line in ("commit", "rollback", "commit 1 -t 2"):
        printed = shell(f"flo kv {line}")
        assert printed.code == 2
        assert "name one transaction, as NUMBER or with --txn" in printed.err


def test_a_transaction_that_is_not_open_is_not_found(shell, txn):
    shell(f"flo kv rollback {txn}")

    for line in (f"commit {txn}", f"rollback -t {txn}", f"set a 1 -t {txn}", f"get a -t {txn}"):
        printed = shell(f"flo kv {line}")
        assert printed.code == 1
        assert printed.err.endswith("[transaction_not_found]\nBegin another with: flo kv begin\n")


def test_a_condition_has_no_place_in_a_transaction(shell, txn):
    printed = shell(f"flo kv set a 1 --nx -t {txn}")

    assert printed.code == 3
    assert "[condition_in_transaction]" in printed.err


def test_the_life_of_a_transaction_in_json(shell, client):
    client.kv.put("a", b"1")

    begun = json.loads(shell("flo kv begin --format json").out)
    number = begun["transaction"]
    assert begun["version"] == client.kv.get("a").version
    shell(f"flo kv incr a -t {number}")

    assert json.loads(shell(f"flo kv commit {number} --format json").out) == {
        "version": begun["version"] + 1,
        "changes": 1,
        "values": {"a": 2},
    }
    assert shell("flo kv begin").out == f"Began transaction: {number + 1}\n"
    assert json.loads(shell(f"flo kv rollback {number + 1} --format json").out) == {
        "transaction": number + 1
    }
