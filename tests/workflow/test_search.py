import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.model.errors import Invalid
from flo.workflow.definition import AttributeType, SearchAttribute
from flo.workflow.search import (
    And,
    Compare,
    In,
    Not,
    Or,
    attributes_of,
    matches,
    parse_where,
    tags_of,
    tags_wanted,
)

ORDER = {"customer_id": "42", "order_amount": 150.5, "created_at": 1_767_225_600_000}
"""created_at is 2026-01-01T00:00:00Z."""


def wanted(kind, path="$.input.x"):
    return (SearchAttribute(name="x", type=AttributeType(kind), path=path),)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('a = "42"', Compare("a", "=", "42")),
        ("a == 42", Compare("a", "=", 42)),
        ("a <> -1.5e3", Compare("a", "!=", -1500.0)),
        ("a='it'", Compare("a", "=", "it")),
        (r'a = "say \"hi\" \\"', Compare("a", "=", 'say "hi" \\')),
        ("a<=1 AND b>=2", And((Compare("a", "<=", 1), Compare("b", ">=", 2)))),
        (
            "a=1 or b=2 and c=3",
            Or((Compare("a", "=", 1), And((Compare("b", "=", 2), Compare("c", "=", 3))))),
        ),
        (
            "(a=1 or b=2) and not c=3",
            And((Or((Compare("a", "=", 1), Compare("b", "=", 2))), Not(Compare("c", "=", 3)))),
        ),
        ('a in (1, "x" , 2)', In("a", (1, "x", 2))),
        ("order.amount-net > 1", Compare("order.amount-net", ">", 1)),
    ],
)
def test_an_expression_is_read(text, tree):
    assert parse_where(text) == tree


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected the name of a search attribute, got the end"),
        ("a", 2, "expected one of =, !=, <, <=, >, >= or in, got the end"),
        ("a =", 4, "expected a number or a text in quotes, got the end"),
        ("a = b", 5, 'did you mean "b"?'),
        ("a = 1 b", 7, "expected and, or, or the end, got b"),
        ("a = 1 and", 10, "expected the name"),
        ("(a = 1", 7, "expected ')', got the end"),
        ("a = 1)", 6, "expected and, or, or the end, got )"),
        ("a in 1", 6, "expected '(', got 1"),
        ("a in (1", 8, "expected ')', got the end"),
        ('a = "open', 5, "cannot read"),
        ("a ! 1", 3, "cannot read"),
        ("a = 1.2.3", 5, "expected a number"),
        ("1 = a", 1, "expected the name"),
        ("(" * 40 + "a=1" + ")" * 40, 34, "expected at most 32 levels"),
        ("not " * 40 + "a=1", 133, "expected at most 32 levels"),
        ("a=1 or " * 1_000 + "a=1", 1, "expected at most 4096 characters"),
    ],
)
def test_a_bad_expression_is_refused_with_its_column(text, column, words):
    with pytest.raises(Invalid) as refused:
        parse_where(text)

    assert refused.value.code == "invalid_search"
    assert refused.value.details == {"column": column}
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('customer_id = "42" and order_amount > 100', True),
        ('customer_id = "42" and order_amount > 200', False),
        ("customer_id = 42", True),
        ("customer_id != 42", False),
        ('order_amount = "150.5"', True),
        ('order_amount = "many"', False),
        ('created_at >= "2026-01-01"', True),
        ('created_at > "2026-01-01T00:00:00Z"', False),
        ('created_at < "2026-01-01T02:00:00+01:00"', True),
        ("created_at = 1767225600000", True),
        ("customer_id in (41, 42)", True),
        ("customer_id in (41, 43)", False),
        ("nobody = 1", False),
        ("nobody != 1", False),
        ("not nobody = 1", True),
        ('customer_id < "5" or nobody = 1', True),
    ],
)
def test_an_expression_finds_a_run(text, found):
    assert matches(parse_where(text), ORDER) is found


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("string", "a", "a"),
        ("string", 42, "42"),
        ("string", True, "true"),
        ("string", "x" * 600, "x" * 512),
        ("number", 42, 42),
        ("number", 1.5, 1.5),
        ("number", "42", 42),
        ("number", "4.2", 4.2),
        ("number", "many", None),
        ("number", True, None),
        ("number", [1], None),
        ("number", 2**80, None),
        ("timestamp", 1_767_225_600_000, 1_767_225_600_000),
        ("timestamp", "2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("timestamp", "2026-01-01", 1_767_225_600_000),
        ("timestamp", "2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("timestamp", "yesterday", None),
        ("timestamp", {"a": 1}, None),
        ("string", None, None),
    ],
)
def test_an_attribute_is_taken_from_an_input_in_its_type(kind, value, taken):
    found = attributes_of(wanted(kind), {"x": value})

    assert found == ({} if taken is None else {"x": taken})


def test_an_attribute_may_stand_deep_or_not_at_all():
    assert attributes_of(wanted("string", "$.input.a[0].b"), {"a": [{"b": "c"}]}) == {"x": "c"}
    assert attributes_of(wanted("string"), "just text") == {}


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.integers(-5, 5) | st.floats(-5, 5) | st.text("xyz\"'\\ ", max_size=4)
TREES = st.recursive(
    st.builds(Compare, NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES)
    | st.builds(In, NAMES, st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


def written(tree):
    match tree:
        case Compare(name, sign, value):
            return f"{name} {sign} {literal(value)}"
        case In(name, values):
            return f"{name} in ({', '.join(map(literal, values))})"
        case Not(part):
            return f"not ({written(part)})"
        case And(parts):
            return " and ".join(f"({written(part)})" for part in parts)
        case Or(parts):
            return " or ".join(f"({written(part)})" for part in parts)


def literal(value):
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value:.30f}" if isinstance(value, float) else str(value)


@given(TREES, st.dictionaries(NAMES, st.integers(-5, 5) | st.text("xyz", max_size=3)))
def test_what_is_written_is_what_is_read(tree, attributes):
    found = parse_where(written(tree))

    assert parse_where(written(found)) == found
    assert isinstance(matches(found, attributes), bool)


PIECES = st.sampled_from(["a", "=", "(", ")", "and", "or", "not", "in", "1", '"x"', ","])


@given(st.text(max_size=30) | st.lists(PIECES, max_size=12).map(" ".join))
def test_no_text_is_too_odd_to_be_refused(text):
    assert 0 <= column_of_mistake(text) <= len(text) + 1


def column_of_mistake(text):
    try:
        matches(parse_where(text), ORDER)
    except Invalid as refused:
        return refused.details["column"]
    return 0


# What indexes find


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ('a = "x"', ("a=sx",)),
        ("a = 1", ("a=s1", "a=n1")),
        ("a = 1.0", ("a=s1.0", "a=n1")),
        ('a = "1.5"', ("a=s1.5", "a=n1.5")),
        ('a in ("x", "y")', ("a=sx", "a=sy")),
        ('b > 1 and a = "x"', ("a=sx",)),
        ('a = "x" or b = "y"', ("a=sx", "b=sy")),
        ('a = "x" or b > 1', None),
        ('not a = "x"', None),
        ('a != "x"', None),
        ("a > 1", None),
        (f"a in ({', '.join(str(number) for number in range(50))})", None),
    ],
)
def test_an_index_is_asked_for_values_that_are_named(text, tags):
    assert tags_wanted(parse_where(text)) == tags


@pytest.mark.parametrize("seed", range(20))
def test_whatever_matches_has_one_of_the_tags_that_are_asked_for(seed):
    rng = random.Random(seed)
    values = ["x", "1", "1.0", 1, 1.0, 1.5, 0, "2026-01-31", 1769817600000]
    written = [*(f'"{one}"' for one in values), "1", "1.0", "1.5", "0", "1769817600000"]

    def some(depth=0):
        kind = rng.randrange(5 if depth < 3 else 2)
        name, sign = rng.choice("ab"), rng.choice(["=", "=", "!=", ">", "<="])
        if kind == 0:
            return f"{name} {sign} {rng.choice(written)}"
        if kind == 1:
            return f"{name} in ({', '.join(rng.sample(written, 2))})"
        if kind == 2:
            return f"not ({some(depth + 1)})"
        return f"({some(depth + 1)} {rng.choice(['and', 'or'])} {some(depth + 1)})"

    hits = 0
    for _ in range(200):
        expression = parse_where(some())
        attributes = {name: rng.choice(values) for name in "ab" if rng.random() < 0.9}
        wanted = tags_wanted(expression)
        if wanted is not None and matches(expression, attributes):
            assert not set(wanted).isdisjoint(tags_of(attributes))
            hits += 1
    assert hits
