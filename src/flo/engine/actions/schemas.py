"""JSON Schemas of inputs and outputs: compiled once, checked at every invoke and complete.

Nothing is fetched for a `$ref`, and patterns take time in proportion to the text they look at.
"""

from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from flo.model.errors import Invalid, TooLarge
from flo.model.ids import TEXT_LENGTH_MAX, check_json

SCHEMA_LENGTH_MAX = 65_536
PROBLEMS_MAX = 10
PROBLEM_LENGTH_MAX = 256
LENGTH_FOR_ALL_PROBLEMS_MAX = 4_096
"""Of a longer payload only the first problem is told: to find all of them may take minutes."""

_encode = msgspec.json.Encoder(order="sorted").encode


def schema_text(schema: dict[str, Any] | None, what: str) -> str | None:
    """The schema as text, once it has been found to be one."""
    if schema is None:
        return None
    check_json(schema, what)
    text = _encode(schema).decode()
    if len(text) > SCHEMA_LENGTH_MAX:
        raise TooLarge(f"expected {what} of at most {SCHEMA_LENGTH_MAX} characters")
    try:
        _validator(text)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise Invalid(f"{what} is no JSON Schema: {reason}", code="invalid_schema") from error
    return text


def check_schema(schema: str | None, payload: bytes, what: str, code: str) -> None:
    """Refuse a payload that its schema does not allow, and say where and why."""
    if schema is None:
        return
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"expected {what} in JSON, as its schema asks: {error}", code=code) from error
    validator = _validator(schema)
    try:
        problems = [] if validator.is_valid(value) else _problems(validator, value, len(payload))
    except ValueError as error:
        raise Invalid(f"{what} cannot be held against its schema: {error}", code=code) from error
    if problems:
        told = "; ".join(f"{one['path'] or '/'}: {one['problem']}" for one in problems)
        raise Invalid(
            f"{what} does not fit its schema: {told}"[:TEXT_LENGTH_MAX],
            code=code,
            details={"problems": problems},
        )


def _problems(validator: jsonschema_rs.Validator, value: Any, length: int) -> list[dict[str, str]]:
    if length <= LENGTH_FOR_ALL_PROBLEMS_MAX:
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
def _validator(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        msgspec.json.decode(schema),
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"schemas of other places are not fetched: {uri}")
