import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.workflow.mapping import (
    PathError,
    Root,
    Scope,
    StepValue,
    compile_mapping,
    compile_template,
    parse_path,
)

SCOPE = Scope(
    input={
        "customer_id": 42,
        "email": "a@b.c",
        "items": [{"sku": "x"}, {"sku": "y"}],
        "odd.key": {"0": "zero"},
        "deep": {"er": {"est": True}},
    },
    steps={
        "start": StepValue("success", {"id": "p-1"}),
        "enrich": StepValue("approved", {"email": "e@f.g", "tags": ["a", "b"]}),
        "empty": StepValue("failure"),
    },
    run_id="wfrun-7",
    now_ms=1_700_000_000_000,
    item={"name": "Ann"},
    item_index=3,
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.input", SCOPE.input),
        ("$.input.customer_id", 42),
        ("$.input.deep.er.est", True),
        ("$.input.items[0].sku", "x"),
        ("$.input.items.1.sku", "y"),
        ("$.input.items[-1].sku", "y"),
        ('$.input["odd.key"].0', "zero"),
        ("$.input['odd.key']['0']", "zero"),
        ("$.input.items[2]", None),
        ("$.input.items[-3]", None),
        ("$.input.items.sku", None),
        ("$.input.nobody", None),
        ("$.input.email.domain", None),
        ("$.input.deep[0]", None),
        ("$.steps.start.output.id", "p-1"),
        ("$.steps._start.output.id", "p-1"),
        ("$.steps._start.outcome", "success"),
        ("$.steps.enrich.output", {"email": "e@f.g", "tags": ["a", "b"]}),
        ("$.steps.enrich.output.tags[1]", "b"),
        ("$.steps.enrich.outcome", "approved"),
        ("$.steps.empty.output", None),
        ("$.steps.empty.output.x", None),
        ("$.steps.nobody.output", None),
        ("$.steps.nobody.outcome", None),
        ("$.flo.run_id", "wfrun-7"),
        ("$.flo.timestamp", 1_700_000_000_000),
        ("$.item", {"name": "Ann"}),
        ("$.item.name", "Ann"),
        ("$.index", 3),
    ],
)
def test_a_path_resolves(path, value):
    assert compile_mapping(path).resolve(SCOPE) == value
    assert compile_mapping(json.dumps({"a": [path]})).resolve(SCOPE) == {"a": [value]}


@pytest.mark.parametrize(
    "path",
    [
        "$.",
        "$.inputs",
        "$.steps",
        "$.steps.a",
        "$.steps.a.result",
        "$.steps.a.outcome.x",
        "$.flo",
        "$.flo.name",
        "$.flo.run_id.x",
        "$.index.x",
        "$.input.",
        "$.input..a",
        "$.input[a]",
        "$.input[0",
        "$.input a",
        "$.input." + "a" * 2_000,
    ],
)
def test_a_path_that_is_not_well_formed_is_told_and_resolves_to_null(path):
    with pytest.raises(PathError):
        parse_path(path)

    compiled = compile_mapping(json.dumps({"a": path, "b": "$.input.email"}))

    assert [error.text for error in compiled.errors] == [path]
    assert compiled.resolve(SCOPE) == {"a": None, "b": "a@b.c"}


def test_values_that_are_no_paths_pass_as_they_are():
    text = '{"template": "payment_success", "price": "$5", "n": [1, 2.5, true, null, {"a": {}}]}'

    compiled = compile_mapping(text)

    assert compiled.resolve(SCOPE) == json.loads(text)
    assert compiled.paths == ()


@pytest.mark.parametrize(
    "text", ["hello", "", "{broken", "Dear {input.name}", "$", "$input", "%PDF"]
)
def test_a_text_that_is_no_json_passes_as_it_is(text):
    assert compile_mapping(text).resolve(SCOPE) == text


@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        ({"from": "$.steps.start.output.id", "default": "none"}, "p-1"),
        ({"from": "$.steps.start.output.other", "default": "none"}, "none"),
        ({"from": "$.steps.empty.output.id", "default": None}, None),
        ({"from": "$.steps.later.output", "default": {"a": ["$.input.customer_id"]}}, {"a": [42]}),
        (
            {
                "from": "$.steps.later.output",
                "default": {"from": "$.steps.empty.output", "default": 7},
            },
            7,
        ),
        ({"a": [{"from": "$.steps.empty.error", "default": ""}]}, {"a": [""]}),
    ],
)
def test_a_default_stands_for_what_is_not_there(mapping, value):
    assert compile_mapping(json.dumps(mapping)).resolve(SCOPE) == value


@pytest.mark.parametrize(
    "mapping",
    [
        {"from": "Berlin", "default": "Paris"},
        {"from": 1, "default": 2},
        {"from": "$.input.customer_id"},
        {"from": "$.input.customer_id", "default": 1, "to": 2},
    ],
)
def test_an_object_that_only_looks_like_a_default_stays_an_object(mapping):
    resolved = compile_mapping(json.dumps(mapping)).resolve(SCOPE)

    assert resolved.keys() == mapping.keys()


def test_a_path_knows_whether_it_has_a_default():
    default = {"from": "$.steps.a.output", "default": "$.steps.b.output"}
    compiled = compile_mapping(json.dumps({"x": default, "y": "$.steps.c.output"}))

    assert {path.step: path.has_default for path in compiled.paths} == {
        "a": True,
        "b": True,
        "c": False,
    }


def test_a_mapping_knows_which_steps_it_looks_at():
    compiled = compile_mapping(
        '{"a": "$.steps._start.output", "b": "$.steps.enrich.outcome", "c": "$.input"}'
    )

    assert compiled.steps == {"start", "enrich"}
    assert [path.root for path in compiled.paths] == [Root.OUTPUT, Root.OUTCOME, Root.INPUT]


def test_a_mapping_is_compiled_once():
    assert compile_mapping('{"a": 1}') is compile_mapping('{"a": 1}')


def test_deep_json_is_a_text():
    text = "[" * 100_000

    assert compile_mapping(text).resolve(SCOPE) == text


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("charge:{input.customer_id}:{input.email}", "charge:42:a@b.c"),
        ("{$.input.email}", "a@b.c"),
        ("{ input.email }", "a@b.c"),
        ("{input.nobody}", "null"),
        ("{input.items}", '[{"sku":"x"},{"sku":"y"}]'),
        ("{input.deep.er.est}", "true"),
        ("{steps.enrich.output.email}/{flo.run_id}", "e@f.g/wfrun-7"),
        ("{{literally}} {input.customer_id}", "{literally} 42"),
        ("nothing to fill", "nothing to fill"),
        ("", ""),
    ],
)
def test_a_template_is_filled(text, filled):
    compiled = compile_template(text)

    assert compiled.resolve(SCOPE) == filled
    assert compiled.errors == ()


@pytest.mark.parametrize("text", ["{", "}", "{}", "{nobody}", "{input.a", "input.a}", "{steps.a}"])
def test_a_template_that_is_not_well_formed_is_told(text):
    assert len(compile_template(text).errors) == 1


@given(st.text(max_size=40), st.text(max_size=20))
def test_no_text_is_too_odd_to_compile(text, rest):
    for odd in (text, "$." + text, "$.input" + rest, json.dumps(["$." + text])):
        compile_mapping(odd).resolve(SCOPE)
        assert isinstance(compile_template(odd).resolve(SCOPE), str)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
    )
)
def test_every_value_of_an_input_is_found_by_its_path(value):
    def check_all(found, path):
        if isinstance(found, dict):
            for key, inner in found.items():
                if '"' not in key:
                    check_all(inner, f'{path}["{key}"]')
        elif isinstance(found, list):
            for number, inner in enumerate(found):
                check_all(inner, f"{path}[{number}]")
        assert compile_mapping(json.dumps(path)).resolve(Scope(input=value)) == found

    check_all(value, "$.input")
