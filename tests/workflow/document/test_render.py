import json
import re

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flo.workflow.definition import Definition
from flo.workflow.document.parse import parse
from flo.workflow.document.read import read
from flo.workflow.document.render import document_of, render

from ..documents import SEED, SMALL
from ..strategies import DEFINITIONS

DOCUMENTS = sorted(path for path in SEED.glob("*.yaml") if path.name != "fragments.yaml")
SLOW = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(DEFINITIONS)
def test_a_definition_survives_being_written_and_read(definition):
    parsed = parse(render(definition))

    assert parsed.problems == ()
    assert parsed.definition == definition


@SLOW
@given(DEFINITIONS)
def test_a_definition_survives_being_kept(definition):
    kept = msgspec.msgpack.encode(definition)

    assert msgspec.msgpack.decode(kept, type=Definition) == definition


@SLOW
@given(DEFINITIONS, st.booleans())
def test_the_twin_of_a_definition_means_the_same(definition, snake):
    document = _respelt(document_of(definition), snake)

    assert parse(json.dumps(document)).definition == definition


def _respelt(value, snake, named=False):
    """All keys of the format in the other case; names of steps, plans and outcomes as they are."""
    if isinstance(value, list):
        return [_respelt(inner, snake) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key if named else _spelt(key, snake): (
            inner
            if key == "transitions" and not named
            else _respelt(inner, snake, not named and key in _TABLES)
        )
        for key, inner in value.items()
    }


_TABLES = ("steps", "plans", "terminals", "branches")


def _spelt(key, snake):
    if snake:
        return re.sub("([A-Z])", r"_\1", key).lower()
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_of_the_seed_survives_being_written_as_yaml_too(path):
    definition = read(path.read_text()).definition

    assert read(yaml.safe_dump(document_of(definition))).definition == definition


def test_defaults_are_left_out():
    assert json.loads(render(read(SMALL).definition)) == yaml.safe_load(SMALL)
