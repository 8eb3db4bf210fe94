import asyncio

import pytest

from client.virtual import run_virtual
from flo.client.session.reconnect import RETRY_S, retry_until_answered
from flo.model.errors import FloError, NotFound, TimedOut, Unavailable


class Asked:
    """Answers with these errors one after the other, and then well."""

    def __init__(self, *errors: FloError) -> None:
        self.errors = list(errors)
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "an answer"


def test_who_is_patient_asks_again_until_there_is_an_answer() -> None:
    ask = Asked(Unavailable("stopping", code="server_stopping"), TimedOut("too late"))

    async def main() -> float:
        assert await retry_until_answered(ask) == "an answer"
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(2 * RETRY_S)
    assert ask.count == 3


@pytest.mark.parametrize(
    "refusal", [NotFound("no such stream"), Unavailable("the client is closed", code="closed")]
)
def test_what_another_attempt_cannot_change_is_raised_at_once(refusal: FloError) -> None:
    ask = Asked(refusal)

    with pytest.raises(type(refusal)):
        run_virtual(retry_until_answered(ask))
    assert ask.count == 1


def test_retries_end_at_the_deadline() -> None:
    ask = Asked(*(Unavailable("away") for _ in range(100)))

    with pytest.raises(Unavailable, match="away"):
        run_virtual(retry_until_answered(ask, deadline_s=10 * RETRY_S))
    assert ask.count == 11
