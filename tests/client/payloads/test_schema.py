from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from flo import Flo, Invalid
from flo.client.payloads.schema import schema_of


class Item(msgspec.Struct):
    sku: str


class Order(msgspec.Struct):
    order_id: str
    items: list[Item] = []


@dataclass
class Email:
    to: str


class Model:
    """What pydantic models look like from outside."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "required": ["id"]}


def test_a_schema_stays_what_it_is() -> None:
    assert schema_of(None, "input_schema") is None
    assert schema_of({"type": "object"}, "input_schema") == {"type": "object"}


def test_a_type_has_a_schema() -> None:
    order = schema_of(Order, "input_schema")
    assert order is not None
    assert order["$defs"]["Order"]["required"] == ["order_id"]
    assert schema_of(list[int], "output_schema") == {"type": "array", "items": {"type": "integer"}}
    assert schema_of(Model, "input_schema") == {"type": "object", "required": ["id"]}


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(Invalid, match="expected input_schema as a JSON Schema") as raised:
        schema_of(object, "input_schema")
    assert raised.value.code == "invalid_schema"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (Order, Order("ORD-1", [Item("a")]), {"order_id": "ORD-1", "items": [{"sku": 1}]}),
        (Email, Email("alice@example.com"), {"to": None}),
        (Model, {"id": 1}, {}),
        ({"type": "array", "maxItems": 2}, [1, 2], [1, 2, 3]),
    ],
)
async def test_inputs_are_checked_by_the_schema_of_their_type(
    flo: Flo, schema: Any, good: Any, bad: Any
) -> None:
    await flo.actions.register("a", input_schema=schema)

    await flo.actions.invoke("a", good)
    with pytest.raises(Invalid) as raised:
        await flo.actions.invoke("a", bad)
    assert raised.value.code == "input_invalid"
    assert raised.value.details["problems"]
    assert (await flo.actions.get("a")).input_schema == schema_of(schema, "input_schema")


async def test_a_schema_that_is_none_is_refused_by_the_server(flo: Flo) -> None:
    with pytest.raises(Invalid, match="no JSON Schema") as raised:
        await flo.actions.register("a", output_schema={"type": "nonsense"})
    assert raised.value.code == "invalid_schema"
