from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from flo.client.payloads.payload import decode_payload, encode_payload
from flo.model.errors import Invalid


class Order(msgspec.Struct):
    id: int
    items: list[str] = []


@dataclass
class Parcel:
    weight: float


class Model:
    """Walks and talks like a pydantic model."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def model_dump(self) -> dict[str, Any]:
        return vars(self)

    def model_dump_json(self) -> str:
        return msgspec.json.encode(self.model_dump()).decode()

    @classmethod
    def model_validate_json(cls, data: bytes) -> "Model":
        return cls.model_validate(msgspec.json.decode(data))

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict) or "name" not in value:
            raise ValueError("name is missing")
        return cls(value["name"])


@dataclass
class Crate:
    model: Model


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (None, b""),
        (b"\x00as it is", b"\x00as it is"),
        (bytearray(b"raw"), b"raw"),
        (memoryview(b"raw"), b"raw"),
        ("text", b'"text"'),
        ({"a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true]}'),
        (Order(id=7, items=["pen"]), b'{"id":7,"items":["pen"]}'),
        (Parcel(weight=1.5), b'{"weight":1.5}'),
        (Model("anna"), b'{"name":"anna"}'),
        ({"nested": [Model("anna")]}, b'{"nested":[{"name":"anna"}]}'),
    ],
)
def test_what_a_value_becomes(value: Any, payload: bytes) -> None:
    assert encode_payload(value) == payload


@pytest.mark.parametrize("value", [object(), {"a": object()}, {1, object()}, "\ud800"])
def test_a_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(Invalid) as raised:
        encode_payload(value)

    assert raised.value.code == "invalid_payload"


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NAN, "output is NaN"),
        ({"items": [{}, {"price": 1.5}, {"price": NAN}]}, "output.items[2].price is NaN"),
        ({"a b": INFINITY}, "output['a b'] is Infinity"),
        ([None, (1.0, -INFINITY)], "output[1][1] is -Infinity"),
        (Parcel(weight=NAN), "output.weight is NaN"),
        ({"nested": [Model(NAN)]}, "output.nested[0].name is NaN"),
    ],
)
def test_a_number_that_json_does_not_have_is_named_by_its_path(value: Any, message: str) -> None:
    with pytest.raises(Invalid) as raised:
        encode_payload(value, "output")

    assert raised.value.message == f"{message}: JSON has no such number"
    assert raised.value.code == "number_not_finite"


@pytest.mark.parametrize("value", ["NaN", {"null": None}, [msgspec.Raw(b"null")], {"a": {None}}])
def test_what_only_looks_like_such_a_number_is_sent(value: Any) -> None:
    assert encode_payload(value) == msgspec.json.encode(value)


@pytest.mark.parametrize(
    ("payload", "into", "value"),
    [
        (b"", Any, None),
        (b"", bytes, b""),
        (b"", Order | None, None),
        (b"\x00", bytes, b"\x00"),
        (b'{"a":1}', Any, {"a": 1}),
        (b'{"id":7}', Order, Order(id=7)),
        (b'{"id":7}', dict[str, int], {"id": 7}),
        (b'{"weight":2}', Parcel, Parcel(weight=2.0)),
    ],
)
def test_what_a_payload_becomes(payload: bytes, into: Any, value: Any) -> None:
    assert decode_payload(payload, into) == value


def test_a_payload_becomes_a_model_alone_and_inside_another_type() -> None:
    assert decode_payload(b'{"name":"anna"}', Model).name == "anna"
    assert decode_payload(b'{"model":{"name":"anna"}}', Crate).model.name == "anna"


@pytest.mark.parametrize(
    ("payload", "into"),
    [
        (b"not json", Any),
        (b"[" * 100_000, Any),
        (b"", Order),
        (b'{"id":"seven"}', Order),
        (b"{}", Model),
        (b'{"model":{}}', Crate),
    ],
)
def test_a_payload_of_another_shape_is_refused(payload: bytes, into: Any) -> None:
    with pytest.raises(Invalid) as raised:
        decode_payload(payload, into)

    assert raised.value.code == "invalid_payload"
