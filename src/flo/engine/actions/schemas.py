"""JSON Schemas of inputs and outputs: compiled once, checked at every invoke and complete.

    registered   its size and its cost for each byte of a payload are bounded (`cost/`)
    checked      at once, if payload and schema together are cheap; else elsewhere, before the
                 decision, within a time limit (`SchemaCheck`)

Nothing is fetched for a `$ref`, and patterns take time in proportion to the text they look at.
"""

from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from flo.engine.actions.cost.graph import SchemaGraph
from flo.engine.actions.cost.growth import CostModel, SchemaCost
from flo.engine.context import Context
from flo.engine.lookup import WorkLookup
from flo.model.errors import Invalid, TooLarge
from flo.model.ids import TEXT_LENGTH_MAX, check_json

SCHEMA_LENGTH_MAX = 65_536
LENGTH_AT_ONCE_MAX = 4_096
"""A longer schema may take a tenth of a second to look at."""
PROBLEMS_MAX = 10
PROBLEM_LENGTH_MAX = 256
LENGTH_FOR_ALL_PROBLEMS_MAX = 4_096
NS_FOR_ALL_PROBLEMS_MAX = 1_000_000
"""Of a longer payload only the first problem is told: to find all of them may take minutes."""
AT_ONCE_NS_MAX = 10_000_000
"""What may take longer is checked elsewhere, so that nobody else waits for it."""
IN_A_STEP_NS_MAX = 2_000_000_000
"""The input of a workflow step comes about within a decision: there is no elsewhere for it. The
largest payload and a plain schema are within it."""

_encode = msgspec.json.Encoder(order="sorted").encode


class SchemaVerdict(msgspec.Struct, frozen=True):
    """What a schema says to a payload; without a problem, it fits."""

    problem: str = ""
    details: dict[str, Any] = {}
    is_given_up: bool = False
    """It could not be found out in the time or memory that there is."""


FITS = SchemaVerdict()


class SchemaCheck(WorkLookup[SchemaVerdict], frozen=True):
    """Does this payload fit the schema? Asked where the answer may take a while."""

    schema: str
    payload: bytes

    def work(self) -> SchemaVerdict:
        return verdict_of(self.schema, self.payload)

    def given_up(self, reason: str) -> SchemaVerdict:
        return SchemaVerdict(f"cannot be held against its schema: {reason}", is_given_up=True)


def schema_text(schema: dict[str, Any] | None, what: str) -> str | None:
    """The schema as text, once it has been found to be one that can be checked in good time."""
    if schema is None:
        return None
    check_json(schema, what)
    text = _encode(schema).decode()
    if len(text) > SCHEMA_LENGTH_MAX:
        raise TooLarge(f"expected {what} of at most {SCHEMA_LENGTH_MAX} characters")
    return _checked(text, what)


def takes_a_while(schema: dict[str, Any] | None) -> bool:
    """Whether it is better found out elsewhere, and beforehand, that this can be a schema."""
    return schema is not None and len(_encode(schema)) > LENGTH_AT_ONCE_MAX


@lru_cache(maxsize=256)
def _checked(text: str, what: str) -> str:
    graph = SchemaGraph(msgspec.json.decode(text), what)
    assert CostModel(graph, what).cost.schema_ns >= 0
    try:
        _validator(text)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise Invalid(f"{what} is no JSON Schema: {reason}", code="invalid_schema") from error
    for place, reference in graph.unresolved:
        raise Invalid(
            f"{what} is to be complete: expected references to what is in it, as #/$defs/name, "
            f"got {reference[:80]!r} at {place}",
            code="invalid_schema",
        )
    return text


def schema_check(schema: str | None, payload: bytes) -> SchemaCheck | None:
    """What must be found out elsewhere before this payload can be decided about."""
    if schema is None or cost_of(schema).of(payload) <= AT_ONCE_NS_MAX:
        return None
    return SchemaCheck(schema, payload)


def check_schema(
    schema: str | None, payload: bytes, what: str, code: str, context: Context
) -> None:
    """Refuse a payload that its schema does not allow, and say where and why."""
    if schema is None:
        return
    cost_ns = cost_of(schema).of(payload)
    verdict = None
    if cost_ns > AT_ONCE_NS_MAX:
        check = SchemaCheck(schema, payload)
        verdict = context.found.get(check)
        if verdict is None and cost_ns > IN_A_STEP_NS_MAX:
            verdict = check.given_up(f"it may take {cost_ns / 1e9:.1f} s")
    verdict = verdict or verdict_of(schema, payload)
    if verdict.is_given_up:
        advice = "expected a smaller one, or a simpler schema"
        raise TooLarge(f"{what} {verdict.problem}; {advice}", code="schema_too_costly")
    if verdict.problem:
        raise Invalid(
            f"{what} {verdict.problem}"[:TEXT_LENGTH_MAX], code=code, details=verdict.details
        )


def verdict_of(schema: str, payload: bytes) -> SchemaVerdict:
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return SchemaVerdict(f"is not in JSON, as its schema asks: {error}")
    validator = _validator(schema)
    try:
        if validator.is_valid(value):
            return FITS
        problems = _problems(validator, value, _are_all_told(schema, payload))
    except ValueError as error:
        return SchemaVerdict(f"cannot be held against its schema: {error}")
    told = "; ".join(f"{one['path'] or '/'}: {one['problem']}" for one in problems)
    return SchemaVerdict(f"does not fit its schema: {told}", {"problems": problems})


def _are_all_told(schema: str, payload: bytes) -> bool:
    return (
        len(payload) <= LENGTH_FOR_ALL_PROBLEMS_MAX
        and cost_of(schema).of(payload) <= NS_FOR_ALL_PROBLEMS_MAX
    )


def _problems(
    validator: jsonschema_rs.Validator, value: Any, tell_all: bool
) -> list[dict[str, str]]:
    if tell_all:
        return [_problem(error) for error in islice(validator.iter_errors(value), PROBLEMS_MAX)]
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_problem(error)]
    return []


def _problem(error: jsonschema_rs.ValidationError) -> dict[str, str]:
    path = "".join(f"/{step}" for step in error.instance_path)
    return {"path": _shortened(path), "problem": _shortened(error.message)}


def _shortened(text: str) -> str:
    """The two ends of it: a problem begins with the value and ends with what is wrong with it."""
    half = PROBLEM_LENGTH_MAX // 2
    return text if len(text) <= PROBLEM_LENGTH_MAX else f"{text[:half]} … {text[-half:]}"


@lru_cache(maxsize=1_024)
def cost_of(schema: str) -> SchemaCost:
    """What it costs to hold a payload against a schema that was found fit."""
    return CostModel(SchemaGraph(msgspec.json.decode(schema), "the schema"), "the schema").cost


@lru_cache(maxsize=1_024)
def _validator(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        msgspec.json.decode(schema),
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"schemas of other places are not fetched: {uri}")
