"""`{{ }}` in parameters."""

import msgspec
import pytest

from flo.workflow.jmes import ExpressionError
from flo.workflow.mapping import Scope, StepValue, compile_mapping
from flo.workflow.neops.templates import parameters_text
from flo.workflow.neops.values import ExpressionPlace

SCOPE = Scope(
    input={"parameters": {"site": "zrh", "vlan": 7}},
    steps={
        "get": StepValue("success", {"version": "2"}),
        "bad": StepValue("failure", None, "boom", "broken", 3),
        "outer-get": StepValue("success", {"version": "inner"}),
        "outer--in": StepValue("go", {"vlan": 8}),
    },
    context={"device": {"hostname": "r1"}},
)


def made(written, raw=None, place=None, scope=SCOPE):
    text = parameters_text(written, raw or {}, place or ExpressionPlace())
    return compile_mapping(text).resolve(scope)


def one(value, **more):
    return made({"x": value}, **more)["x"]


def test_a_whole_template_is_the_value_with_its_type():
    assert one("{{ parameters.vlan }}") == 7
    assert one("{{ get.result.data }}") == {"version": "2"}


def test_a_template_in_a_text_is_a_part_of_it():
    text = "vlan {{ parameters.vlan }} at {{parameters.site}}!"
    assert one(text) == "vlan 7 at zrh!"


def test_templates_are_found_in_lists_and_objects():
    value = {"a": ["{{ parameters.site }}", {"b": "{{ context.device.hostname }}"}]}
    assert one(value) == {"a": ["zrh", {"b": "r1"}]}


def test_an_expression_may_hold_braces_itself():
    assert one("{{ {a: {b: parameters.vlan}} }}") == {"a": {"b": 7}}


def test_what_is_raw_is_passed_on_as_it_is():
    raw = {
        "x": "{{ parameters.site }}",
        "path": "$.input.secret",
        "list": ["$.a", {"b": "$neops:"}],
    }
    assert made({}, raw) == raw


def test_a_text_that_looks_like_a_path_of_ours_is_a_text():
    assert one("$.input.parameters") == "$.input.parameters"
    assert one({"from": "$.input", "default": "`1`"}) == {"from": "$.input", "default": "`1`"}
    assert one("$`quoted`") == "$`quoted`"


def test_a_step_that_failed_has_its_error():
    assert one("{{ bad.status }}") == "failed"
    assert one("{{ bad.result.message }}") == "boom"
    assert one("{{ bad.result.success }}") is False


def test_a_step_that_has_not_run_is_null():
    assert one("{{ never.result.data }}") is None


def test_defaults_stand_behind_what_is_given():
    place = ExpressionPlace(defaults={"site": "bern", "mtu": 1_500})
    assert one("{{ [parameters.site, parameters.mtu] }}", place=place) == ["zrh", 1_500]


def test_inside_an_embedded_workflow_its_own_steps_and_parameters_come_first():
    place = ExpressionPlace(inside=["outer-"])
    assert one("{{ get.result.data.version }}", place=place) == "inner"
    assert one("{{ parameters.vlan }}", place=place) == 8
    assert one("{{ bad.visits }}", place=place) == 3


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        ("{{ parameters.site }}", set()),
        ("plain", set()),
        ("$.input.x", set()),
        ("{{ get.result.data }}-{{ parameters.site }}", {"get"}),
        ("{{ context.device.hostname }}", {"context"}),
    ],
)
def test_it_is_known_what_a_parameter_waits_for(value, steps):
    assert compile_mapping(parameters_text({"x": value}, {}, ExpressionPlace())).steps == steps


def test_an_expression_without_a_value_is_an_error_of_its_own():
    with pytest.raises(ExpressionError):
        one("{{ abs(parameters.site) }}")


def test_a_value_that_is_too_deep_is_refused():
    deep = msgspec.json.decode(b"[" * 60 + b"]" * 60)
    with pytest.raises(ExpressionError):
        parameters_text({"x": deep}, {}, ExpressionPlace())
