import json

import pytest


@pytest.fixture
def user(client):
    client.kv.put("user:1", b'{"name": "Alice", "tags": ["a", "b"], "size": 1.50}')


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("$.name", '"Alice"'),
        ("$.tags", '["a","b"]'),
        ("$.tags[-1]", '"b"'),
        ("$.size", "1.5"),
    ],
)
@pytest.mark.usefixtures("user")
def test_what_is_at_a_path(shell, path, text):
    assert shell(f"flo kv json-get user:1 --path '{path}'") == (0, f"{text}\n", "")
    assert shell(f"flo kv json-get user:1 --path '{path}' -o raw").out == f"{text}\n"
    assert json.loads(shell(f"flo kv json-get user:1 --path '{path}' -o json").out) == {
        "key": "user:1",
        "path": path,
        "value": json.loads(text),
    }


@pytest.mark.usefixtures("user")
def test_without_a_path_it_is_all_of_it(shell):
    assert json.loads(shell("flo kv json-get user:1").out)["name"] == "Alice"


@pytest.mark.usefixtures("user")
def test_what_is_not_there_is_not_found(shell):
    printed = shell("flo kv json-get user:1 --path '$.age'")

    assert printed.code == 1
    assert "[path_not_found]" in printed.err


@pytest.mark.usefixtures("user")
def test_a_path_that_is_none_is_refused(shell):
    printed = shell("flo kv json-get user:1 --path name")

    assert printed.code == 3
    assert "[invalid_path]" in printed.err


def test_a_document_is_set_and_changed(shell, client):
    assert shell("""flo kv json-set user:2 '{"name":"Bob"}'""") == (0, "OK\n", "")
    assert shell("""flo kv json-set user:2 '"Bobby"' --path '$.name'""").code == 0
    assert shell("flo kv json-set user:2 null --path '$.boss'").code == 0

    assert client.kv.get_json("user:2") == {"name": "Bobby", "boss": None}


@pytest.mark.usefixtures("user")
def test_a_part_of_a_document_is_deleted(shell, client):
    assert shell("flo kv json-del user:1 --path '$.tags[0]'") == (0, "OK\n", "")
    assert client.kv.get_json("user:1", "$.tags") == ["b"]
    assert shell("flo kv json-del user:1").code == 0
    assert not client.kv.exists("user:1")


@pytest.mark.usefixtures("user")
def test_a_document_may_be_changed_only_if_it_has_one_version(shell, client):
    version = client.kv.get("user:1").version

    assert shell(f"flo kv json-set user:1 1 --path '$.a' --cas {version + 1}").code == 3
    assert json.loads(
        shell(f"flo kv json-set user:1 1 --path '$.a' --cas {version} -o json").out
    ) == {
        "key": "user:1",
        "version": version + 1,
    }
    assert shell(f"flo kv json-del user:1 --path '$.a' --cas {version}").code == 3


@pytest.mark.parametrize("text", ["Bob", "{", ""])
def test_what_is_no_json_is_a_wrong_line(shell, text):
    printed = shell(f"flo kv json-set user:2 '{text}'")

    assert printed.code == 2
    assert "expected JSON" in printed.err
    assert "a text stands in quotes" in printed.err


def test_a_value_that_is_no_json_has_no_parts(shell, client):
    client.kv.put("a", b"Alice")

    printed = shell("flo kv json-get a")

    assert printed.code == 3
    assert "[wrong_type]" in printed.err
