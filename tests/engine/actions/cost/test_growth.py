"""The cost model, held against a count of what is really looked at.

`looks` holds a value against a schema without stopping at the first problem, and counts how often
each part of the value is looked at. What the model allows keeps within its bound; what it refuses
goes far beyond, for a value that is no deeper than a few levels.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.actions.cost.graph import SchemaGraph
from flo.engine.actions.cost.growth import BYTE_NS, EXPANSION_MAX, LEVELS_MAX, CostModel
from flo.engine.actions.cost.places import ELEMENT, MEMBER, NAME
from flo.model.errors import TooLarge

SELF = {"$ref": "#"}
N = {"$ref": "#/$defs/n"}
DEPTH = 30


def model(schema):
    return CostModel(SchemaGraph(schema, "the schema"), "the schema")


def looks(schema, value):
    """The most that one part of a value is looked at; in vain once it is far too much."""
    subschemas = SchemaGraph(schema, "the schema").subschemas
    most = 0
    waiting = [(value, Counter({0: 1}))]
    while waiting and most <= EXPANSION_MAX * 100:
        part, coming = waiting.pop()
        here, inside = Counter(), Counter()
        while coming:
            number, times = coming.popitem()
            here[number] += times
            for target, place in subschemas[number].edges:
                if place is None:
                    coming[target] += times
                else:
                    inside[target, place] += times
            if here.total() > EXPANSION_MAX * 100:
                break
        most = max(most, here.total())
        for inner, is_there in parts_of(part):
            nexts = Counter()
            for (target, place), times in inside.items():
                if is_there(place):
                    nexts[target] += times
            if nexts:
                waiting.append((inner, nexts))
    return most


def parts_of(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield inner, lambda place, name=name: place.kind == MEMBER and place.has_member(name)
            yield name, lambda place: place.kind == NAME
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield (
                inner,
                lambda place, number=number: (
                    place.kind == ELEMENT
                    and place.first <= number
                    and (place.last is None or number <= place.last)
                ),
            )


def nested(depth, wrap):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    return value


VALUES = [
    nested(DEPTH, lambda value: [value]),
    nested(DEPTH, lambda value: {"a": value}),
    nested(DEPTH, lambda value: {"b": value}),
    nested(DEPTH // 2, lambda value: {"a": {"b": value}}),
    nested(DEPTH // 2, lambda value: {"a": [value]}),
    nested(DEPTH // 2, lambda value: [{"b": value}]),
]

CHEAP = {
    "no references": {"properties": {"a": {"type": "integer"}, "b": {"items": {"minimum": 3}}}},
    "a list of itself": {"type": "array", "items": SELF},
    "a tree": {"properties": {"a": SELF, "b": SELF}},
    "any JSON": {"anyOf": [{"additionalProperties": SELF}, {"items": SELF}, {"type": "string"}]},
    "an expression": {
        "properties": {"a": SELF, "b": {"items": SELF}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "the others": {
        "properties": {"a": SELF},
        "patternProperties": {"^x-": SELF},
        "additionalProperties": SELF,
    },
    "a tuple and the rest": {"prefixItems": [SELF, SELF], "items": SELF},
    "dynamic": {"$dynamicAnchor": "n", "properties": {"a": {"items": {"$dynamicRef": "#n"}}}},
    "an anchor": {"$defs": {"x": {"$anchor": "n", "items": {"$ref": "#n"}}}, "$ref": "#n"},
    "resources": {
        "$id": "http://flo/a",
        "$defs": {"b": {"$id": "b", "items": {"$ref": "a"}}},
        "properties": {"a": {"$ref": "b"}},
    },
    "shared below many": {
        "$defs": {
            **{
                f"l{n}": {"properties": {p: {"$ref": f"#/$defs/l{n + 1}"} for p in "abcdefghij"}}
                for n in range(6)
            },
            "l6": {"type": "string"},
        },
        "$ref": "#/$defs/l0",
    },
}

EXPLODING = {
    "two arrays of itself": {"$defs": {"n": {"oneOf": [{"items": N}, {"items": N}]}}, **N},
    "two names for one member": {"properties": {"a": SELF}, "patternProperties": {"^a": SELF}},
    "every and some": {"items": SELF, "contains": SELF},
    "alternatives with the same member": {
        "oneOf": [{"properties": {"a": SELF, "b": SELF}}, {"properties": {"a": SELF}}]
    },
    "in turns": {
        "$defs": {
            "x": {"properties": {"a": {"$ref": "#/$defs/y"}}},
            "y": {"anyOf": [{"properties": {"b": {"$ref": "#/$defs/x"}}}] * 2},
        },
        "$ref": "#/$defs/x",
    },
    "a condition and its consequence": {
        "if": {"properties": {"a": SELF}},
        "then": {"properties": {"a": SELF}},
    },
    "a chain for one value": {
        "$defs": {
            **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(24)},
            "a24": {},
        },
        "$ref": "#/$defs/a0",
    },
    "a chain into a value": {
        "$defs": {
            **{
                f"a{n}": {"allOf": [{"properties": {"a": {"$ref": f"#/$defs/a{n + 1}"}}}] * 2}
                for n in range(24)
            },
            "a24": {},
        },
        "$ref": "#/$defs/a0",
    },
}


@pytest.mark.parametrize("schema", CHEAP.values(), ids=CHEAP)
def test_what_looks_at_each_part_a_few_times_is_allowed(schema):
    cost = model(schema).cost

    assert cost.powers == 0
    assert max(looks(schema, value) for value in VALUES) < 20


@pytest.mark.parametrize("schema", EXPLODING.values(), ids=EXPLODING)
def test_what_looks_at_a_part_ever_more_often_is_refused_with_its_place(schema):
    with pytest.raises(TooLarge) as refusal:
        _ = model(schema).cost

    assert refusal.value.code == "schema_too_costly"
    assert refusal.value.details["pointer"].startswith("#")
    assert refusal.value.details["pointer"] in refusal.value.message
    # The control: without the refusal, a part would be looked at so often.
    assert max(looks(schema, value) for value in VALUES) > EXPANSION_MAX


@pytest.mark.parametrize(
    "schema", [{"allOf": [SELF]}, SELF, {"not": SELF}, {"$defs": {"n": {"anyOf": [N]}}, **N}]
)
def test_what_refers_to_itself_for_the_same_value_is_refused(schema):
    with pytest.raises(TooLarge, match="refers to itself for one and the same value"):
        _ = model(schema).cost


def test_a_recursion_below_another_costs_the_depth_of_the_value():
    inner = {"$ref": "#/$defs/inner"}
    schema = {
        "$defs": {"inner": {"properties": {"a": inner}}},
        "properties": {"a": {"allOf": [SELF, inner]}},
    }
    value = nested(DEPTH, lambda value: {"a": value})

    cost = model(schema).cost

    assert cost.powers == 1
    assert cost.of(b'{"a":' * 100) == 100 * 500 * (BYTE_NS + cost.schema_ns)
    assert looks(schema, value) < 5 * DEPTH


def test_very_much_that_leads_back_to_itself_is_refused():
    names = [f"n{number}" for number in range(60)]
    schema = {
        "$defs": {n: {"properties": {m: {"$ref": f"#/$defs/{m}"} for m in names}} for n in names},
        "$ref": "#/$defs/n0",
    }

    with pytest.raises(TooLarge, match="too much in it leads back to itself"):
        _ = model(schema).cost


def chain(levels):
    names = [f"n{number}" for number in range(levels)]
    following = zip(names, [*names[1:], names[-1]], strict=True)
    schemas = {
        name: {"properties": {"a": {"$ref": f"#/$defs/{after}"}}} for name, after in following
    }
    return {"$defs": schemas | {names[-1]: {}}, "$ref": "#/$defs/n0"}


def test_very_many_levels_that_are_told_apart_are_refused():
    assert model(chain(LEVELS_MAX)).cost
    with pytest.raises(TooLarge, match=f"goes more than {LEVELS_MAX} levels deep"):
        _ = model(chain(LEVELS_MAX + 1)).cost


def test_what_a_recursion_leads_to_is_met_from_all_its_levels():
    after = {"properties": {"a": {"properties": {"a": {"properties": {"a": {}}}}}}}
    schema = {"allOf": [{"properties": {"a": SELF}}, {"properties": {"a": after}}]}

    found = model(schema)

    assert found.cost.powers == 0
    assert looks(schema, nested(DEPTH, lambda value: {"a": value})) <= found.times_max


def test_a_pattern_costs_as_much_as_it_has_characters():
    small, large = (model({"pattern": f"(a{{{n}}}){{50}}b"}).cost for n in (1, 100))

    assert large.schema_ns > 50 * small.schema_ns


def test_very_large_patterns_are_refused():
    with pytest.raises(TooLarge, match="patterns in the schema that take at most"):
        model({"properties": {f"p{n}": {"pattern": "(a{100}){90}"} for n in range(20)}})


# Whatever schema there may be

REFERENCES = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in "xyz"])


def schemas():
    inner = st.deferred(lambda: REFERENCES | st.just({}) | subschemas)
    some = st.lists(inner, min_size=1, max_size=2)
    members = st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2)
    subschemas = st.deferred(
        lambda: st.fixed_dictionaries(
            {},
            optional={
                "items": inner,
                "prefixItems": some,
                "contains": inner,
                "properties": members,
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner),
                "additionalProperties": inner,
                "anyOf": some,
                "allOf": some,
            },
        )
    )
    return st.fixed_dictionaries({name: subschemas for name in "xyz"})


@settings(max_examples=60, deadline=None)
@given(schemas())
def test_what_is_allowed_keeps_within_its_bound(definitions):
    schema = {"$defs": definitions, "$ref": "#/$defs/x"}
    try:
        found = model(schema)
        cost = found.cost
    except TooLarge:
        return

    for value in VALUES:
        assert looks(schema, value) <= found.times_max * DEPTH**cost.powers
