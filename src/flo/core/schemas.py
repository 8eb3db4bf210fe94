"""JSON Schemas of inputs and outputs: compiled once, checked at every invoke and complete.

Nothing is fetched for a `$ref`, and patterns take time in proportion to the text they look at.
"""

from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from flo.model.errors import Invalid, TooLarge
from flo.model.ids import TEXT_LENGTH_MAX

SCHEMA_LENGTH_MAX = 65_536
PROBLEMS_MAX = 10

_encode = msgspec.json.Encoder(order="sorted").encode


def schema_text(schema: dict[str, Any] | None, what: str) -> str | None:
    """The schema as text, once it has been found to be one."""
    if schema is None:
        return None
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
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"expected {what} in JSON, as its schema asks: {error}", code=code) from error
    problems = [
        {"path": "".join(f"/{step}" for step in problem.instance_path), "problem": problem.message}
        for problem in islice(_validator(schema).iter_errors(value), PROBLEMS_MAX)
    ]
    if problems:
        told = "; ".join(f"{one['path'] or '/'}: {one['problem']}" for one in problems)
        raise Invalid(
            f"{what} does not fit its schema: {told}"[:TEXT_LENGTH_MAX],
            code=code,
            details={"problems": problems},
        )


@lru_cache(maxsize=1_024)
def _validator(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        msgspec.json.decode(schema),
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"schemas of other places are not fetched: {uri}")
