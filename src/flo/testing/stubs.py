"""What stands in for an action in the test of a workflow.

    action("charge", fails="card_declined", times=2).then(returns={"id": 7})

A stub has answers that follow on each other: each is given a number of times, the last one for ever
unless it has a number, too. What it was called with is kept for the test to look at.
"""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, NamedTuple

from flo.client.payloads.payload import decode_payload
from flo.model.errors import Invalid
from flo.model.ids import ActionName, RunId, WorkerId
from flo.model.runs import OUTCOME_SUCCESS, Complete, Fail, Task
from flo.worker.outcome import Done, GiveUp, OutOfTime, TryAgain, outcome_of, outcome_of_error

WORKER: WorkerId = "workflow-test"


class Answer(NamedTuple):
    """One way to answer; at most one of `returns`, `fails`, `times_out`, `hangs`, `does`.

    With `does` and another one, the function is called first, and nobody hears what came of it.
    """

    returns: Any = None
    outcome: str = OUTCOME_SUCCESS
    fails: str | None = None
    times_out: bool = False
    hangs: bool = False
    does: Callable[[Any], Any] | None = None
    times: int | None = None


class Stub:
    def __init__(self, action: ActionName, answer: Answer) -> None:
        self.action = action
        self.calls: list[Any] = []
        """The inputs that it was called with, decoded."""
        self._answers = [_checked(answer)]

    def then(
        self,
        *,
        returns: Any = None,
        outcome: str = OUTCOME_SUCCESS,
        fails: str | None = None,
        times_out: bool = False,
        hangs: bool = False,
        does: Callable[[Any], Any] | None = None,
        times: int | None = None,
    ) -> "Stub":
        """How it answers when the answers before this one are used up."""
        if self._answers[-1].times is None:
            raise Invalid(
                f"expected a number of times before another answer of {self.action!r}, got none",
                code="invalid_stub",
            )
        answer = Answer(returns, outcome, fails, times_out, hangs, does, times)
        self._answers.append(_checked(answer))
        return self

    async def perform(self, task: Task) -> Complete | Fail | None:
        """What a worker would report of this task; None: it never does."""
        given = decode_payload(task.payload)
        answer = self._answer(len(self.calls), given)
        self.calls.append(given)
        done = await _do(task.task_id, answer.does, given) if answer.does is not None else None
        if answer.hangs:
            return None
        if answer.times_out:
            return _fail(task.task_id, "no answer in time", timed_out=True)
        if answer.fails is not None:
            return _fail(task.task_id, answer.fails)
        return done or _complete(task.task_id, answer.returns, answer.outcome)

    def _answer(self, calls: int, given: Any) -> Answer:
        for answer in self._answers:
            if answer.times is None or calls < answer.times:
                return answer
            calls -= answer.times
        raise AssertionError(
            f"expected at most {len(self.calls)} calls of {self.action!r}, "
            f"got another one with {given!r}"
        )


async def _do(run_id: RunId, function: Callable[[Any], Any], given: Any) -> Complete | Fail:
    try:
        value = function(given)
        if isawaitable(value):
            value = await value
    except AssertionError:
        raise  # it is meant for the test
    except Exception as error:
        return _fail_as(run_id, outcome_of_error(error))
    return _complete(run_id, value)


def _complete(run_id: RunId, value: Any, outcome: str = OUTCOME_SUCCESS) -> Complete | Fail:
    done = outcome_of(value)
    if not isinstance(done, Done):
        return _fail_as(run_id, done)
    named = done.outcome if done.outcome != OUTCOME_SUCCESS else outcome
    return Complete(run_id=run_id, worker_id=WORKER, output=done.output, outcome=named)


def _fail_as(run_id: RunId, failed: TryAgain | GiveUp | OutOfTime) -> Fail:
    return Fail(
        run_id=run_id,
        worker_id=WORKER,
        error=failed.error,
        code=failed.code,
        dead_letter=not isinstance(failed, GiveUp) or failed.dead_letter,
    )


def _fail(run_id: RunId, error: str, *, timed_out: bool = False) -> Fail:
    return Fail(run_id=run_id, worker_id=WORKER, error=error, timed_out=timed_out)


def _checked(answer: Answer) -> Answer:
    ways = {
        "returns": answer.returns is not None or answer.outcome != OUTCOME_SUCCESS,
        "fails": answer.fails is not None,
        "times_out": answer.times_out,
        "hangs": answer.hangs,
    }
    chosen = [name for name, is_set in ways.items() if is_set]
    if answer.does is not None and ways["returns"]:
        chosen.append("does")
    if len(chosen) > 1:
        raise Invalid(
            f"expected one way to answer, got {' and '.join(chosen)}", code="invalid_stub"
        )
    if answer.times is not None and answer.times < 1:
        raise Invalid(f"expected times to be at least 1, got {answer.times}", code="invalid_stub")
    return answer
