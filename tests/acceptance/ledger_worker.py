"""A worker that keeps a ledger: python ledger_worker.py ADDRESS ID LEDGER [--work-ms …].

It notes every execution before it begins, and every answer to its reports. What it returns names
the execution: who, and in which attempt.
"""

import argparse
import asyncio
import logging
from pathlib import Path
from typing import Any

from ledger import ACCEPTED, BEGUN, REFUSED, Ledger

from flo import ActionContext, ActionWorker, Flo, Rejected
from flo.client.workers import Workers
from flo.model.runs import Accepted

ACTION = "send-email"
LEASE_MS = 600_000
"""So long that no task comes back because its lease has run out."""


class NotingWorkers(Workers):
    """The calls of a worker; the answers to its reports are noted."""

    ledger: Ledger

    async def complete(
        self, run_id: str, worker_id: str, output: Any = None, *, attempt: int = 0, **more: Any
    ) -> Accepted:
        try:
            answer = await super().complete(run_id, worker_id, output, attempt=attempt, **more)
        except Rejected:
            self.ledger.write(REFUSED, run_id, attempt, worker_id)
            raise
        self.ledger.write(ACCEPTED, run_id, attempt, worker_id)
        return answer


def noting_client(address: str, ledger: Ledger) -> Flo:
    flo = Flo(address)
    flo.workers = NotingWorkers(flo._session, flo.namespace)
    flo.workers.ledger = ledger
    return flo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("worker_id")
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--work-ms", type=int, default=0, help="how long a handler takes")
    parser.add_argument("--hold", action="store_true", help="handlers never end")
    chosen = parser.parse_args()
    logging.disable()
    ledger = Ledger(chosen.ledger)
    worker = ActionWorker(
        noting_client(chosen.address, ledger),
        worker_id=chosen.worker_id,
        concurrency=chosen.concurrency,
    )

    @worker.action(ACTION, timeout_ms=LEASE_MS, max_retries=100, retry_delay_ms=0)
    async def send_email(ctx: ActionContext) -> dict[str, str | int]:
        ledger.write(BEGUN, ctx.task_id, ctx.attempt, chosen.worker_id)
        if chosen.hold:
            await asyncio.Event().wait()
        await asyncio.sleep(chosen.work_ms / 1_000)
        return {"by": chosen.worker_id, "attempt": ctx.attempt}

    worker.run()


if __name__ == "__main__":
    main()
