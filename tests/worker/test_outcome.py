from typing import Any

import pytest

from flo.model.ids import ERROR_LENGTH_MAX, PAYLOAD_LENGTH_MAX
from flo.worker.outcome import (
    ActionError,
    ActionResult,
    Done,
    GiveUp,
    NonRetryableError,
    TryAgain,
    outcome_of,
    outcome_of_error,
)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, Done(b"", "success")),
        (b"raw", Done(b"raw", "success")),
        ({"valid": True}, Done(b'{"valid":true}', "success")),
        (ActionResult("approved", {"id": 1}), Done(b'{"id":1}', "approved")),
        (ActionResult("rejected"), Done(b"", "rejected")),
    ],
)
def test_what_a_returned_value_means(value: Any, outcome: Done) -> None:
    assert outcome_of(value) == outcome


def test_a_value_that_cannot_be_sent_is_given_up_and_kept_for_a_requeue() -> None:
    outcome = outcome_of(object())

    assert isinstance(outcome, GiveUp)
    assert outcome.dead_letter
    assert "cannot be sent" in outcome.error


def test_the_largest_result_can_be_sent_and_a_larger_one_is_given_up() -> None:
    largest = outcome_of(bytes(PAYLOAD_LENGTH_MAX))
    larger = outcome_of(ActionResult("rendered", bytes(PAYLOAD_LENGTH_MAX + 1)))

    assert isinstance(largest, Done)
    assert larger == GiveUp(
        "too_large: the result cannot be sent: "
        "expected a result of at most 16777216 bytes, got 16777217",
        code="too_large",
    )


def test_a_number_that_json_does_not_have_is_given_up_for_good() -> None:
    outcome = outcome_of(ActionResult("priced", {"items": [{"price": float("nan")}]}))

    assert outcome == GiveUp(
        "number_not_finite: the result cannot be sent: "
        "output.items[0].price is NaN: JSON has no such number",
        dead_letter=False,
        code="number_not_finite",
    )


def fails(error: Exception) -> None:
    raise error


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        fails(error)
    return caught.value


def test_an_exception_is_tried_again_and_tells_what_and_where() -> None:
    outcome = outcome_of_error(raised(KeyError("order")))

    assert isinstance(outcome, TryAgain)
    assert outcome.error.splitlines()[0] == "KeyError: 'order'"
    assert "in fails\n    raise error" in outcome.error


def test_a_non_retryable_error_is_given_up_and_not_kept() -> None:
    outcome = outcome_of_error(raised(NonRetryableError("missing orderId")))

    assert outcome == GiveUp(
        "NonRetryableError: missing orderId", dead_letter=False, code="NonRetryableError"
    )


def test_a_kind_of_non_retryable_error_keeps_its_name() -> None:
    class OrderRefused(NonRetryableError):
        pass

    assert outcome_of_error(OrderRefused("too much")) == GiveUp(
        "OrderRefused: too much", dead_letter=False, code="OrderRefused"
    )


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error", [ValueError("x" * 1_000_000), ValueError("half \ud800"), Unspeakable()]
)
def test_every_error_becomes_text_that_can_be_sent(error: Exception) -> None:
    outcome = outcome_of_error(raised(error))

    assert isinstance(outcome, TryAgain)
    assert outcome.error.startswith(type(error).__name__)
    assert len(outcome.error.encode()) <= ERROR_LENGTH_MAX


class BankClosed(ActionError):
    code = "bank_closed"


class Numbered(Exception):
    code = 404


class Named(Exception):
    code = "E-42"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (NonRetryableError("card refused", code="invalid_card"), "invalid_card", "card refused"),
        (NonRetryableError("invalid_card"), "invalid_card", ""),
        (NonRetryableError("no such card"), "NonRetryableError", "no such card"),
        (ActionError("it is late", code="bank_closed"), "bank_closed", "it is late"),
        (BankClosed("it is late"), "bank_closed", "it is late"),
        (BankClosed("it is late", code="holiday"), "holiday", "it is late"),
        (ActionError("it is late", code=""), "ActionError", "it is late"),
        (ValueError("no stock"), "ValueError", "no stock"),
        (ValueError("9_lives"), "ValueError", "9_lives"),
        (ValueError("x" * 129), "ValueError", "x" * 129),
        (Numbered("not found"), "Numbered", "not found"),
        (Named("not found"), "E-42", "not found"),
        (ActionError("late", code="c" * 1_000), "c" * 128, "late"),
    ],
)
def test_the_code_of_an_error_is_its_own_or_its_message_or_its_class(
    error: Exception, code: str, text: str
) -> None:
    outcome = outcome_of_error(error)

    assert outcome.code == code
    assert outcome.error.splitlines()[0] == (f"{code}: {text}" if text else code)


def test_an_exception_of_another_kind_keeps_its_name_beside_a_code_that_is_its_message() -> None:
    outcome = outcome_of_error(ValueError("no_stock"))

    assert (outcome.code, outcome.error.splitlines()[0]) == ("no_stock", "ValueError: no_stock")


def test_an_action_error_is_tried_again_and_needs_no_traceback() -> None:
    outcome = outcome_of_error(raised(ActionError("it is late", code="bank_closed")))

    assert outcome == TryAgain("bank_closed: it is late", "bank_closed")
