"""What a handler may return or raise, and what each means.

returns a value                    Done        outcome "success"
returns ctx.result(name, data)     Done        that outcome
raises                             TryAgain    after a delay, while retries are left
raises NonRetryableError           GiveUp      at once, and not dead-lettered
returns what cannot be sent        GiveUp      the work is done: doing it again helps nobody
returns NaN or Infinity            GiveUp      as NonRetryableError: JSON has no such number
runs over the timeout_ms           OutOfTime   as TryAgain; without retries it has timed out
runs over the action_timeout       GiveUp
"""

import traceback
from typing import Any, NamedTuple, TypeAlias

from flo.client.payloads.numbers import NUMBER_NOT_FINITE
from flo.client.payloads.payload import encode_payload
from flo.model.errors import Invalid
from flo.model.ids import TEXT_LENGTH_MAX, check_payload
from flo.model.runs import OUTCOME_SUCCESS


class NonRetryableError(Exception):
    """Raised by a handler: another attempt cannot help."""


class ActionResult(NamedTuple):
    """A result with a name of its own, by which a workflow chooses where to go next."""

    outcome: str
    data: Any = None


class Done(NamedTuple):
    output: bytes
    outcome: str = OUTCOME_SUCCESS


class TryAgain(NamedTuple):
    error: str


class GiveUp(NamedTuple):
    """`dead_letter` keeps the run for a requeue."""

    error: str
    dead_letter: bool = True


class OutOfTime(NamedTuple):
    error: str


Outcome: TypeAlias = Done | TryAgain | GiveUp | OutOfTime


def outcome_of(value: Any) -> Outcome:
    """What it means that a handler has returned this."""
    name = OUTCOME_SUCCESS
    if isinstance(value, ActionResult):
        name, value = value
    try:
        output = encode_payload(value, "output")
        check_payload(output, "a result")
        return Done(output, name)
    except Invalid as error:
        return GiveUp(
            f"{error.code}: the result cannot be sent: {error.message}",
            dead_letter=error.code != NUMBER_NOT_FINITE,
        )


def outcome_of_error(error: BaseException) -> TryAgain | GiveUp:
    """What it means that a handler has raised this."""
    if isinstance(error, NonRetryableError):
        return GiveUp(_describe(error), dead_letter=False)
    trace = "".join(traceback.format_exception(error))
    return TryAgain(f"{_describe(error)}\n\n{_text(trace[-TEXT_LENGTH_MAX:])}")


def _describe(error: BaseException) -> str:
    """Its code, if it has one, and its message: plans know errors by their codes."""
    code = getattr(error, "code", None) if isinstance(error, Exception) else None
    name = code if isinstance(code, str) and code else type(error).__name__
    try:
        message = str(error)
    except Exception as another:
        message = f"its message cannot be shown: {type(another).__name__}"
    return _text(f"{name}: {message}"[:TEXT_LENGTH_MAX])


def _text(text: str) -> str:
    """Without what cannot be sent: a lone half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().strip()
