"""What a handler may return or raise, and what each means.

returns a value                    Done        outcome "success"
returns ctx.result(name, data)     Done        that outcome
raises                             TryAgain    after a delay, while retries are left
raises ActionError                 TryAgain    the same, with a code of its own
raises what is no Exception        TryAgain    the same: KeyboardInterrupt, SystemExit, …
raises NonRetryableError           GiveUp      at once, and not dead-lettered
returns what cannot be sent        GiveUp      the work is done: doing it again helps nobody
returns NaN or Infinity            GiveUp      as NonRetryableError: JSON has no such number
runs over the timeout_ms           OutOfTime   as TryAgain; without retries it has timed out
runs over the action_timeout       GiveUp

The code of an error is its `code`; else its message, if that is one word; else its class.
"""

import traceback
from typing import Any, NamedTuple, TypeAlias

from flo.client.payloads.numbers import NUMBER_NOT_FINITE
from flo.client.payloads.payload import encode_payload
from flo.model.errors import (
    ERROR_CODE_LENGTH_MAX,
    FAILURE_CODE,
    TIMEOUT_CODE,
    Invalid,
    word_code,
)
from flo.model.ids import TEXT_LENGTH_MAX, check_payload
from flo.model.runs import OUTCOME_SUCCESS


class ActionError(Exception):
    """Raised by a handler: the attempt has failed, and another one may help.

    `code` is what plans and callers know the error by, such as "bank_closed"; a class may have one
    for all its errors.
    """

    code: str | None = None

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code


class NonRetryableError(ActionError):
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
    code: str = FAILURE_CODE


class GiveUp(NamedTuple):
    """`dead_letter` keeps the run for a requeue."""

    error: str
    dead_letter: bool = True
    code: str = FAILURE_CODE


class OutOfTime(NamedTuple):
    error: str
    code: str = TIMEOUT_CODE


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
            code=error.code,
        )


def outcome_of_error(error: BaseException) -> TryAgain | GiveUp:
    """What it means that a handler has raised this."""
    message = _message_of(error)
    name = _own_code(error) or type(error).__name__
    code = _own_code(error) or word_code(message) or name[:ERROR_CODE_LENGTH_MAX]
    is_word = isinstance(error, ActionError) and message == code
    text = _text((message if is_word else f"{name}: {message}")[:TEXT_LENGTH_MAX])
    if isinstance(error, NonRetryableError):
        return GiveUp(text, dead_letter=False, code=code)
    if isinstance(error, ActionError):
        return TryAgain(text, code)
    trace = "".join(traceback.format_exception(error))
    return TryAgain(f"{text}\n\n{_text(trace[-TEXT_LENGTH_MAX:])}", code)


def _own_code(error: BaseException) -> str | None:
    try:
        code = getattr(error, "code", None) if isinstance(error, Exception) else None
    except BaseException:  # it is computed, and that fails
        return None
    return _text(code[:ERROR_CODE_LENGTH_MAX]) if isinstance(code, str) else None


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as another:
        return f"its message cannot be shown: {type(another).__name__}"


def _text(text: str) -> str:
    """Without what cannot be sent: a lone half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().strip()
