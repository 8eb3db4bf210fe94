"""Bodies of the blackboard API."""

import pytest

from flo.compat.neops.blocks import RegisterBlockBody
from flo.compat.neops.body import iso, read_body, whole
from flo.compat.neops.jobs import EntityUpdates, ResultBody
from flo.compat.neops.updates import stored_updates
from flo.compat.neops.workers import VersionBody, check_version
from flo.model.errors import Invalid

BLOCK = (
    b'{"name":"echo","package":"lab.example","majorVersion":1,"minorVersion":2,"patchVersion":3.0,'
    b'"description":"Echo text","runOn":"global","fbType":"execute","deprecated":false,'
    b'"parameterJsonSchema":{},"resultDataJsonSchema":{},"isPure":true,"workerId":"w","new":1}'
)


def version(text):
    return check_version(VersionBody(version=text), "1.0")


def test_a_block_is_named_by_its_package_its_name_and_its_version():
    assert read_body(RegisterBlockBody, BLOCK).id == "lab.example/echo:1.2.3"


def test_an_older_worker_says_nothing_of_reversible():
    assert read_body(RegisterBlockBody, BLOCK).reversible is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"{}",
        BLOCK.replace(b"lab.example", b"lab/example"),
        BLOCK.replace(b'"execute"', b'"exec"'),
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_none_is_refused(body):
    with pytest.raises(Invalid) as refusal:
        read_body(RegisterBlockBody, body)
    assert refusal.value.code == "invalid_body"


def test_a_version_has_whole_numbers():
    with pytest.raises(Invalid):
        whole(1.5, "version")


@pytest.mark.parametrize("text", ["0.43.0-beta.2", "0.42.1", "v0.43", "nonsense", ""])
def test_clients_whose_calls_were_checked_and_those_nobody_can_tell_are_compatible(text):
    assert (version(text).compatible, version(text).deprecated) == (True, False)


def test_an_older_client_is_deprecated():
    assert (version("0.12.0").compatible, version("0.12.0").deprecated) == (True, True)


def test_another_major_version_is_not_compatible():
    assert not version("1.0.0").compatible


def test_a_moment_is_written_in_utc():
    assert iso(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"


def test_a_result_has_succeeded_if_both_its_status_and_the_block_say_so():
    body = b'{"jobExecutionId":"j","status":"%s","result":{"success":%s}}'
    assert read_body(ResultBody, body % (b"success", b"true")).succeeded
    assert not read_body(ResultBody, body % (b"failed", b"true")).succeeded
    assert not read_body(ResultBody, body % (b"success", b"false")).succeeded


def test_updates_are_stored_with_the_names_that_documents_have():
    reported = read_body(
        EntityUpdates,
        b'{"updates":['
        b'{"operation":"patch","entity":"device","id":7,"path":"connection_state","value":null},'
        b'{"operation":"create","entity":"device","id":9,"data":{"software_release":"1"},'
        b'"identifierFields":["software_release"],"skipIfIdentifierExists":true},'
        b'{"operation":"delete","entity":"interface","id":11}]}',
    )
    assert stored_updates(reported) == [
        {
            "operation": "patch",
            "entity": "device",
            "id": 7,
            "path": "connectionState",
            "value": None,
        },
        {
            "operation": "create",
            "entity": "device",
            "id": 9,
            "data": {"softwareRelease": "1"},
            "identifierFields": ["softwareRelease"],
            "skipIfIdentifierExists": True,
        },
        {"operation": "delete", "entity": "interface", "id": 11},
    ]
