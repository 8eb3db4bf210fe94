import json
import re

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from flo.workflow.definition import Definition, Schedule, Trigger
from flo.workflow.document.fields import fields_of
from flo.workflow.document.problem import CODES, Severity
from flo.workflow.document.read import read
from flo.workflow.document.render import document_of
from flo.workflow.document.schema import json_schema, reference
from flo.workflow.plan.plan import Executor, Plan
from flo.workflow.retry import Poll, Retry
from flo.workflow.steps import ForEach, RunStep

from ..documents import MARK, SEED, SMALL
from ..strategies import DEFINITIONS
from . import test_refusals

SCHEMA = jsonschema_rs.validator_for(json_schema())
DOCUMENTS = sorted(path for path in SEED.glob("*.yaml") if path.name != "fragments.yaml")

SEEN_BY_EDITORS = frozenset(
    [
        "E101",
        "E102",
        "E103",
        "E104",
        "E108",
        "E114",
        "E117",
        "E118",
        "E120",
        "E202",
        "E402",
        "E403",
        "E404",
        "E409",
    ]
)
"""The other codes need somebody who knows the whole document, or its exact text."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_an_editor_accepts_the_documents_of_the_seed(path):
    SCHEMA.validate(yaml.safe_load(path.read_text()))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(DEFINITIONS)
def test_an_editor_accepts_whatever_the_reader_accepts(definition):
    SCHEMA.validate(document_of(definition))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stepz", {}),
        ("kind", "Pipeline"),
        ("idempotency", "maybe"),
        ("concurrency", {"max": 0}),
        ("start", {"run": "check"}),
        ("start", {"run": "@actions/a", "retry": {"max_attempts": 0}}),
        ("start", {"run": "@actions/a", "sleep": 5}),
        ("start", {"parallel": {"branches": {}}}),
        ("plans", {"p": {"executors": []}}),
        ("schedule", {"interval": "soon"}),
        ("steps", {"a.b": {"sleep": 1}}),
        ("name", 5),
    ],
)
def test_an_editor_marks_mistakes(key, value):
    document = {**yaml.safe_load(SMALL), key: value}

    assert not SCHEMA.is_valid(document)
    assert read(json.dumps(document)).definition is None


def test_an_editor_marks_what_is_missing():
    for key in ("kind", "name", "version", "start"):
        document = yaml.safe_load(SMALL)
        del document[key]
        assert not SCHEMA.is_valid(document)


def test_the_schema_describes_every_field():
    for struct in (Retry, Poll, Plan, Executor, Schedule, Trigger, ForEach):
        described = json_schema()["$defs"][struct.__name__]["properties"]
        for field in fields_of(struct):
            assert described[field.key]["description"] == field.description != ""


def test_the_reference_names_every_field_and_every_code():
    text = reference()

    for struct in (Definition, RunStep, Retry, Poll, Plan, Executor, Trigger):
        for field in fields_of(struct):
            assert re.search(
                rf"^\| `{field.key}`.* \|.*{re.escape(field.description)} \|$", text, re.M
            )
    for code, meaning in CODES.items():
        assert f"| {code} | {meaning} |" in text


def test_every_example_of_the_reference_is_right():
    blocks = re.findall(r"```yaml\n(.*?)```", reference(), re.S)

    assert len(blocks) == 9
    for block in blocks:
        problems = read(json.dumps(around(yaml.safe_load(block)))).problems
        errors = [one for one in problems if one.severity is Severity.ERROR]
        assert {one.code for one in errors} <= {"E201"}, (
            errors
        )  # the steps they lead to are not there


def around(example):
    """A document around the steps, the block of a step or the block of a document."""
    document = yaml.safe_load(SMALL)
    match list(example):
        case ["retry"]:
            document["start"].update(example)
        case ["concurrency"]:
            document.update(example)
        case _:
            document["steps"] = example
    return document


def test_an_editor_sees_every_mistake_that_it_can():
    passed = {}
    for name, (text, code) in test_refusals.CASES.items():
        document = plain(text.replace(MARK, ""))
        if document is not None and SCHEMA.is_valid(document):
            passed[name] = code

    assert {name for name, code in passed.items() if code in SEEN_BY_EDITORS} == set()
    assert {"E201", "E203", "E206"} <= set(passed.values())


def plain(text):
    """The document as an editor sees it; None if it is none."""
    try:
        return json.loads(json.dumps(yaml.safe_load(text)))
    except (yaml.YAMLError, TypeError, UnicodeError, ValueError, RecursionError):
        return None
