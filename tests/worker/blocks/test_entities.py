"""What became of the entities of a job."""

from typing import Any

import pytest

from flo.worker.blocks.entities import NEW_ID_MAX, NEW_ID_MIN, Entities


def devices() -> Entities:
    return Entities(
        "device",
        [
            {"id": 7, "hostname": "r1", "facts": {"os": "x"}, "updatedAt": "then"},
            {"id": 8, "hostname": "r2"},
        ],
    )


def changes(entities: Entities) -> list[dict[str, Any]]:
    return list(entities.changes())


def test_what_was_left_alone_is_no_change() -> None:
    assert changes(devices()) == []


def test_a_field_that_was_set_is_a_patch_by_attribute_or_by_name() -> None:
    entities = devices()
    entities[0].hostname = "r9"
    entities[1]["model"] = "new"

    assert changes(entities) == [
        {"operation": "patch", "entity": "device", "id": 7, "path": "hostname", "value": "r9"},
        {"operation": "patch", "entity": "device", "id": 8, "path": "model", "value": "new"},
    ]


def test_a_change_deep_inside_a_field_patches_the_whole_field() -> None:
    entities = devices()
    entities[0].facts["os"] = "y"

    assert changes(entities) == [
        {"operation": "patch", "entity": "device", "id": 7, "path": "facts", "value": {"os": "y"}}
    ]


def test_a_field_that_was_taken_away_is_patched_to_null() -> None:
    entities = devices()
    del entities[0].fields()["facts"]

    assert changes(entities) == [
        {"operation": "patch", "entity": "device", "id": 7, "path": "facts", "value": None}
    ]


def test_times_that_the_server_keeps_are_not_compared() -> None:
    entities = devices()
    entities[0].updatedAt = "now"

    assert changes(entities) == []


def test_a_new_one_is_a_create_with_what_it_is_known_by() -> None:
    entities = devices()
    made = entities.create(hostname="new1", identifier_fields=["hostname"])

    assert NEW_ID_MIN <= made.id <= NEW_ID_MAX
    assert changes(entities) == [
        {
            "operation": "create",
            "entity": "device",
            "id": made.id,
            "data": {"hostname": "new1"},
            "identifierFields": ["hostname"],
            "skipIfIdentifierExists": True,
        }
    ]


def test_one_that_was_deleted_is_a_delete_and_no_patch() -> None:
    entities = devices()
    entities[0].hostname = "gone"
    entities.delete(entities[0])

    assert changes(entities) == [{"operation": "delete", "entity": "device", "id": 7}]
    assert len(entities) == 1
    assert entities.by_id(7) is None


def test_a_field_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(AttributeError, match="no field 'model', only id, hostname"):
        devices()[1].model  # noqa: B018
    assert devices()[1].get("model") is None
    assert "model" not in devices()[1]
