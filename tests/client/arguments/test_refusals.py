from typing import Any

import pytest

from flo import ActionLimits
from flo.client.arguments.refusals import about_arguments, check_arguments
from flo.model.actions import RegisterAction
from flo.model.errors import FloError, Invalid, NotFound


@pytest.mark.parametrize(
    ("told", "reworded"),
    [
        (
            "register_action: Expected `int`, got `str` - at `$.timeout_ms`",
            "expected timeout_ms as int, got str",
        ),
        ("invoke: Expected `str`, got `int` - at `$.action`", "expected name as str, got int"),
        (
            "invoke_many: Expected `object | null`, got `array` - at `$[...].labels`",
            "expected labels as dict or None, got list",
        ),
        (
            "increment_key: Expected `int`, got `float` - at `$.delta`",
            "expected by as int, got float",
        ),
        (
            "ack: Expected `str`, got `int` - at `$.ids[...]`",
            "expected ids[...] as str, got int",
        ),
        (
            "expected at least one in a batch, got none",
            "expected at least one in a batch, got none",
        ),
    ],
)
def test_a_wrong_type_is_told_by_its_argument(told: str, reworded: str) -> None:
    error = about_arguments(Invalid(told, code="invalid_request", details={"a": 1}))

    assert (type(error), error.message, error.code) == (Invalid, reworded, "invalid_request")
    assert error.details == {"a": 1}


def test_other_refusals_stay_as_they_are() -> None:
    refusal = NotFound("Expected `int`, got `str` - at `$.a`", code="not_there")
    error: FloError = about_arguments(refusal)

    assert error is not refusal  # each caller raises its own
    assert (type(error), error.message, error.code) == (NotFound, refusal.message, "not_there")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout_ms": -1}, "expected timeout_ms from 0 to 31622400000, got -1"),
        ({"max_retries": "3"}, "expected max_retries as int, got str"),
        ({"limits": {"concurrency_max": 1}}, "expected limits as ActionLimits or None, got dict"),
        (
            {"limits": ActionLimits(concurrency_max=0)},
            "expected concurrency_max from 1 to 1000000, got 0",
        ),
    ],
)
def test_what_the_server_would_refuse_is_refused_at_once(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid) as raised:
        check_arguments(RegisterAction(name="a", **settings))

    assert raised.value.message == message


def test_what_the_server_takes_is_not_refused() -> None:
    limits = ActionLimits(concurrency_max=3, concurrency_key="{input.who}")
    check_arguments(RegisterAction(name="a", limits=limits, input_schema={"type": "object"}))
