"""The spans of an attempt, of a run that belongs to a trace."""

import time
from collections.abc import Awaitable

from flo.client.session.tracing import Tracing
from flo.model.runs import Task
from flo.worker.outcome import Done, Outcome


async def traced(
    tracing: Tracing, task: Task, worker_id: str, calling: Awaitable[Outcome]
) -> Outcome:
    """Call the handler inside its span: whatever it traces is part of the caller's trace."""
    now_ms = round(time.time() * 1_000)
    with (
        tracing.attempt(task, worker_id, now_ms) as attempt,
        tracing.handler(task.task_type) as handler,
    ):
        outcome = await calling
        if isinstance(outcome, Done):
            attempt.set_attribute("flo.outcome", outcome.outcome)
        else:
            for span in (handler, attempt):
                tracing.note_failure(span, outcome.error, outcome.code)
    return outcome
