"""Waiting for runs to end: waits that begin in the same turn of the loop share long polls.

wait, wait, wait ──flush, once a turn──▸ poll ──▸ ended ──▸ those who waited
                                          ▲         │
                                          └─ others ┘
"""

import asyncio
from typing import Any, TypeAlias

from flo.aio.flush import Flush
from flo.client.session.long_polls import may_poll_again, poll_times
from flo.client.session.session import Session
from flo.model.errors import FloError, NotFound, TimedOut
from flo.model.ids import Namespace, RunId
from flo.model.runs import Ended, RunResult, WaitForRuns

RUNS_PER_POLL_MAX = 32
"""Few, because a poll ends with the first run that ends, and the others are polled for again."""

Waiter: TypeAlias = tuple[RunId, asyncio.Future[RunResult]]


class Waits:
    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace
        self._begun: dict[float, list[Waiter]] = {}
        self._flush = Flush(self._poll)

    def wait(self, run_id: RunId, timeout_s: float) -> asyncio.Future[RunResult]:
        future: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        self._begun.setdefault(timeout_s, []).append((run_id, future))
        self._flush.soon()
        return future

    def _poll(self) -> None:
        now_s = asyncio.get_running_loop().time()
        begun, self._begun = self._begun, {}
        for timeout_s, waiters in begun.items():
            for start in range(0, len(waiters), RUNS_PER_POLL_MAX):
                poll = waiters[start : start + RUNS_PER_POLL_MAX]
                RunPoll(self._session, self._namespace, poll, now_s + timeout_s).ask()


class RunPoll:
    """Polls for some runs until all have ended, or their common deadline has passed."""

    def __init__(
        self, session: Session, namespace: Namespace, waiters: list[Waiter], deadline_s: float
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._waiters = waiters
        self._deadline_s = deadline_s

    def ask(self) -> None:
        block_ms, timeout_s = poll_times(self._deadline_s)
        query = WaitForRuns(
            run_ids=list(dict.fromkeys(run_id for run_id, _ in self._waiters)),
            namespace=self._namespace,
            block_ms=block_ms,
        )
        try:
            answer = self._session.call(query, timeout_s=timeout_s)
        except FloError as error:
            self._refuse(error)
        else:
            answer.add_done_callback(self._answered)

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        problem = answer.exception()
        if problem is None:
            self._tell(answer.result())
        elif not may_poll_again(problem, self._deadline_s):
            self._refuse(problem)
        self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]
        if not self._waiters:
            return
        if self._remaining_s() > 0.0:
            self.ask()
        else:
            self._refuse(_at_the_end(problem))

    def _tell(self, ended: Ended) -> None:
        results = {result.run_id: result for result in ended.results}
        for run_id, future in self._waiters:
            if future.done():  # the caller has gone
                continue
            result = results.get(run_id)
            if result is not None:
                future.set_result(result)
            elif run_id in ended.unknown:
                future.set_exception(
                    NotFound(f"run {run_id!r} does not exist", code="run_not_found")
                )

    def _refuse(self, error: BaseException) -> None:
        for run_id, future in self._waiters:
            if not future.done():
                future.set_exception(_for_run(run_id, error))

    def _remaining_s(self) -> float:
        return self._deadline_s - asyncio.get_running_loop().time()


def _at_the_end(problem: BaseException | None) -> BaseException:
    """Why there is no result at the deadline; that of the last poll is that of the wait."""
    if problem is None or isinstance(problem, TimedOut):
        return TimedOut("the run has not ended in time")
    return problem


def _for_run(run_id: RunId, error: BaseException) -> BaseException:
    if isinstance(error, FloError):
        return type(error)(f"run {run_id!r}: {error.message}", code=error.code)
    return error
