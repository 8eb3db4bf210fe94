import time

import msgspec
import pytest
from msgspec.structs import replace

from flo.engine.actions.schemas import (
    FITS,
    PROBLEMS_MAX,
    SCHEMA_LENGTH_MAX,
    SchemaCheck,
    SchemaVerdict,
    check_schema,
    schema_check,
    schema_text,
)
from flo.engine.context import Context
from flo.engine.lookup import Found
from flo.engine.machine import lookups_for
from flo.engine.volatile import VolatileState
from flo.model.actions import GetAction, RegisterAction
from flo.model.errors import Invalid, TooLarge
from flo.model.runs import Claim, Complete, Fail, Invoke, RunStatus
from flo.testing.clock import NOON_MS
from given import ANNA, given

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "items": {"type": "array", "minItems": 1}},
    "required": ["id"],
}
RECEIPT = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
BUY = RegisterAction(name="buy", input_schema=ORDER, output_schema=RECEIPT)
CONTEXT = Context(NOON_MS, lambda: 0.5, VolatileState(NOON_MS, 0))
CLAIM = Claim(worker_id=ANNA, actions=["buy"])


def invoke(payload):
    return Invoke(action="buy", input=payload)


def complete(payload):
    return Complete(run_id="buy-1", worker_id=ANNA, attempt=1, output=payload)


def check(schema, payload, context=CONTEXT):
    text = schema_text(schema, "the schema")
    check_schema(text, payload, "the input", "input_invalid", context)


def refusal_of(schema, payload):
    with pytest.raises(Invalid) as refusal:
        check(schema, payload)
    assert refusal.value.code == "input_invalid"
    return refusal.value


# At invoke and at complete


def test_an_action_shows_the_schemas_it_was_registered_with():
    view = given(BUY).query(GetAction(name="buy"))

    assert (view.input_schema, view.output_schema) == (ORDER, RECEIPT)


def test_an_input_that_fits_its_schema_is_taken_in():
    assert given(BUY).execute(invoke(b'{"id": "7", "items": [1], "note": "gift"}')).events


def test_an_input_that_does_not_fit_is_refused_with_every_problem_and_its_place():
    engine = given(BUY)

    with pytest.raises(
        Invalid, match='does not fit its schema: /id: 7 is not of type "string"'
    ) as r:
        engine.execute(invoke(b'{"id": 7, "items": []}'))

    assert r.value.code == "input_invalid"
    assert sorted(one["path"] for one in r.value.details["problems"]) == ["/id", "/items"]
    assert all(one["problem"] for one in r.value.details["problems"])
    assert engine.execute(invoke(b'{"id": "7"}')).reply.run_id == "buy-1"


def test_an_invocation_that_comes_again_is_the_same_though_the_schema_has_changed():
    keyed = Invoke(action="buy", input=b'{"id": "7"}', idempotency_key="k")
    engine = given(BUY, keyed, RegisterAction(name="buy", input_schema={"type": "null"}))

    assert engine.execute(keyed).reply.duplicate


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b'{"id": "7"} x',
        b"\xff\xfe",
        b'{"id": "\xff"}',
        b'"\\ud800"',
        b"NaN",
        b"\x81\xa2id\x07",
    ],
)
def test_a_payload_that_is_no_json_is_refused(payload):
    with pytest.raises(Invalid, match="the input is not in JSON, as its schema asks") as refusal:
        given(BUY).execute(invoke(payload))

    assert refusal.value.code == "input_invalid"


def test_a_result_that_does_not_fit_is_refused_and_the_lease_goes_on():
    engine = given(BUY, invoke(b'{"id": "7"}'), CLAIM)

    for payload in (b"", b"[]", b'{"total": "12"}'):
        with pytest.raises(Invalid, match="the output") as refusal:
            engine.execute(complete(payload))
        assert refusal.value.code == "output_invalid"

    assert engine.run("buy-1").status is RunStatus.RUNNING
    assert engine.execute(complete(b'{"total": 12}')).reply.status is RunStatus.COMPLETED


def test_a_failure_has_no_schema():
    engine = given(BUY, invoke(b'{"id": "7"}'), CLAIM)

    assert engine.execute(Fail(run_id="buy-1", worker_id=ANNA, error="sold out")).events


def test_a_result_that_was_taken_in_may_come_again_though_the_schema_has_changed():
    engine = given(BUY, invoke(b'{"id": "7"}'), CLAIM, complete(b'{"total": 12}'))
    engine.execute(RegisterAction(name="buy", output_schema={"type": "null"}))

    assert engine.execute(complete(b'{"total": 12}')).events == ()


def test_a_run_is_held_against_the_schema_that_is_in_force_when_it_completes():
    engine = given(BUY, invoke(b'{"id": "7"}'), CLAIM, RegisterAction(name="buy"))

    assert engine.execute(complete(b"not JSON")).events


def test_an_action_without_schemas_takes_any_bytes():
    engine = given(RegisterAction(name="buy"), invoke(b"\xff\x00"), CLAIM)

    assert engine.execute(complete(b"\xff")).events


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        ({}, b"1", None),
        ({"const": None}, b"null", b"0"),
        ({"type": "integer"}, b"1.0", b"1.5"),
        ({"maximum": 10}, b"10", b"1" + b"0" * 400),
        ({"enum": ["a", 1]}, b'"a"', b"true"),
        ({"$defs": {"n": {"type": "number"}}, "$ref": "#/$defs/n"}, b"1", b'"1"'),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, b"null", b"1"),
        ({"items": {"$ref": "#"}, "type": "array"}, b"[[],[[]]]", b"[[1]]"),
    ],
)
def test_what_fits_and_what_does_not(schema, fits, does_not):
    check(schema, fits)
    if does_not is not None:
        assert refusal_of(schema, does_not).details["problems"]


# Schemas that are none


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strnig"},
        {"required": "id"},
        {"minimum": "3"},
        {"pattern": "("},
        {"pattern": r"(a)\1"},
        {"$ref": "#/nowhere"},
        {"$schema": "http://example.com/of-my-own"},
    ],
)
@pytest.mark.parametrize("field", ["input_schema", "output_schema"])
def test_what_is_no_schema_is_refused_at_registration(schema, field):
    engine = given()

    with pytest.raises(
        Invalid, match=f"the {field.replace('_', ' ')} is no JSON Schema"
    ) as refusal:
        engine.execute(RegisterAction(name="buy", **{field: schema}))

    assert refusal.value.code == "invalid_schema"
    assert engine.events == []


@pytest.mark.parametrize(
    "uri", ["http://example.com/order.json", "https://127.0.0.1/x", "file:///etc/passwd", "order"]
)
def test_nothing_is_fetched_for_a_reference_to_another_place(uri):
    with pytest.raises(Invalid, match="is not present in a registry") as refusal:
        schema_text({"$id": "http://example.com/a", "$ref": uri}, "the schema")

    assert refusal.value.code == "invalid_schema"


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"enum": ["x" * SCHEMA_LENGTH_MAX]}, TooLarge),
        ({"maximum": 10**30}, Invalid),
        ({"minimum": float("nan")}, Invalid),
        ({"default": {1: 2}}, Invalid),
        ({"default": b"bytes"}, Invalid),
        ({"default": msgspec.msgpack.Ext(5, b"ext")}, Invalid),
    ],
)
def test_a_schema_that_could_not_be_kept_is_refused(schema, error):
    with pytest.raises(error):
        given().execute(RegisterAction(name="buy", input_schema=schema))


def nested(depth, key):
    schema = {}
    for _ in range(depth):
        schema = {key: schema}
    return schema


@pytest.mark.parametrize("depth", [200, 5_000])
def test_a_schema_that_is_nested_very_deep_is_refused(depth):
    with pytest.raises(TooLarge, match="nested at most"):
        schema_text(nested(depth, "not"), "the schema")


def test_a_schema_as_large_as_may_be_is_taken_in():
    properties = {f"field-{number}": {"type": "integer"} for number in range(1_500)}
    schema = {"properties": properties, "additionalProperties": False}

    assert len(schema_text(schema, "the schema")) > SCHEMA_LENGTH_MAX / 2
    assert refusal_of(schema, b'{"field-7": "x"}').details["problems"][0]["path"] == "/field-7"


def test_schemas_are_the_same_in_whatever_order_they_are_written():
    one = RegisterAction(name="buy", input_schema={"type": "object", "required": ["id"]})
    other = RegisterAction(
        name="buy", input_schema={"required": ["id"], "type": "object"}, if_changed=True
    )

    assert given(one).execute(other).reply.version == 1


def test_another_schema_is_a_change():
    engine = given(RegisterAction(name="buy", input_schema={"type": "object"}))

    other = RegisterAction(name="buy", input_schema={"type": "array"}, if_changed=True)

    assert engine.execute(other).reply.version == 2


# Hostile payloads


def seconds(do):
    started = time.process_time()
    do()
    return time.process_time() - started


def test_a_catastrophic_pattern_is_harmless():
    schema, payload = {"pattern": "^(a+)+$"}, b'"' + b"a" * 50_000 + b'!"'

    assert seconds(lambda: refusal_of(schema, payload)) < 1


def test_a_pattern_that_would_take_very_much_memory_is_no_schema():
    with pytest.raises(Invalid) as refusal:
        schema_text({"pattern": "((a{100}){100}){100}"}, "the schema")

    assert refusal.value.code == "schema_too_costly"


def test_of_very_many_problems_a_few_are_told():
    payload = msgspec.json.encode(list(range(500)))

    problems = refusal_of({"items": {"type": "string"}}, payload).details["problems"]

    assert [one["path"] for one in problems] == [f"/{place}" for place in range(PROBLEMS_MAX)]


def test_of_a_long_payload_the_first_problem_is_told_and_no_other_is_looked_for():
    schema, payload = {"items": {"type": "string"}}, msgspec.json.encode(list(range(500_000)))

    assert seconds(lambda: refusal_of(schema, payload)) < 1
    assert [one["path"] for one in refusal_of(schema, payload).details["problems"]] == ["/0"]


def test_a_long_value_is_shortened_where_it_is_told():
    payload = b'{"' + b"k" * 100_000 + b'": "' + b"v" * 1_000_000 + b'"}'

    refusal = refusal_of({"additionalProperties": {"type": "number"}}, payload)

    assert len(refusal.message) < 5_000
    (problem,) = refusal.details["problems"]
    assert len(problem["path"]) < 300
    assert problem["problem"].startswith('"vvv')
    assert problem["problem"].endswith('is not of type "number"')


@pytest.mark.parametrize("depth", [300, 900, 100_000])
def test_a_payload_that_is_nested_very_deep_is_refused_and_nothing_breaks(depth):
    refusal_of({"type": "object"}, b"[" * depth + b"]" * depth)


# What may take long

SLOW = {"pattern": "(a{100}){50}b"}
"""45 µs for each character, at the worst."""
LONG = b'"' + b"b" * 1_000 + b'"'
VERY_LONG = b'"' + b"a" * 100_000 + b'"'


def test_what_is_cheap_is_checked_at_once():
    text = schema_text(ORDER, "the schema")

    assert schema_check(text, b'{"id": "7"}') is None
    assert schema_check(text, b'{"id": "' + b"7" * 60_000 + b'"}') is None
    assert schema_check(None, VERY_LONG) is None


def test_what_may_take_long_is_checked_elsewhere_before_the_decision():
    text = schema_text(SLOW, "the schema")

    check = schema_check(text, LONG)

    assert check == SchemaCheck(text, LONG)
    assert "does not match" in check.work().problem
    assert SchemaCheck(text, b'"' + b"a" * 5_000 + b'b"').work() == FITS


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (RegisterAction(name="buy", input_schema=SLOW), invoke(LONG)),
        (RegisterAction(name="buy", output_schema=SLOW), complete(LONG)),
    ],
)
def test_invoke_and_complete_ask_for_it(register, message):
    engine = given(register, *([invoke(b"1"), CLAIM] if isinstance(message, Complete) else []))

    (lookup,) = lookups_for(engine.state, message, CONTEXT)

    assert lookup == schema_check(schema_text(SLOW, "the schema"), LONG)
    with pytest.raises(Invalid, match="does not match"):
        engine.execute(message)


def told(verdict):
    """A decision to which this was found out before."""
    check = SchemaCheck(schema_text(SLOW, "the schema"), VERY_LONG)
    return replace(CONTEXT, found=Found({}, {check.key(): verdict}))


def test_what_was_found_out_elsewhere_is_believed():
    check(SLOW, VERY_LONG, told(FITS))

    with pytest.raises(Invalid, match="the input is bad") as refusal:
        check(SLOW, VERY_LONG, told(SchemaVerdict("is bad", {"problems": []})))

    assert refusal.value.code == "input_invalid"


def test_what_could_not_be_found_out_is_refused():
    given_up = SchemaCheck("{}", VERY_LONG).given_up("it takes more than 2 s")

    with pytest.raises(TooLarge, match=r"the input cannot .*: it takes more than 2 s") as refusal:
        check(SLOW, VERY_LONG, told(given_up))

    assert refusal.value.code == "schema_too_costly"


def test_where_nothing_can_be_found_out_elsewhere_there_is_a_bound():
    with pytest.raises(TooLarge, match="it may take 4") as refusal:
        check(SLOW, VERY_LONG)

    assert refusal.value.code == "schema_too_costly"


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"n": {"oneOf": [{"items": {"$ref": "#/$defs/n"}}] * 2}}, "$ref": "#/$defs/n"},
        {"allOf": [{"$ref": "#"}]},
    ],
)
def test_a_schema_that_explodes_is_refused_at_registration(schema):
    engine = given()

    with pytest.raises(TooLarge, match="the input schema takes too long to check at #/") as refusal:
        engine.execute(RegisterAction(name="buy", input_schema=schema))

    assert refusal.value.code == "schema_too_costly"
    assert engine.events == []


def test_a_schema_is_complete_by_itself():
    of_all_schemas = {"$ref": "https://json-schema.org/draft/2020-12/schema"}

    with pytest.raises(Invalid, match=r"references to what is in it, .* at #/\$ref") as refusal:
        schema_text(of_all_schemas, "the schema")

    assert refusal.value.code == "invalid_schema"
