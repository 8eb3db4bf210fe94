"""A worker whose handlers do not end before the gate is open: python gated_worker.py ADDRESS ID.

The gate is a run: it is open once the run has ended.
"""

import sys

from flo import ActionContext, ActionWorker, Flo

ACTION = "ship"
GATE = "gate"
LEASE_MS = 2_000

address, worker_id = sys.argv[1:]
flo = Flo(address)
worker = ActionWorker(address, worker_id=worker_id, concurrency=2)


@worker.action(ACTION, timeout_ms=LEASE_MS, max_retries=10, retry_delay_ms=0)
async def ship(ctx: ActionContext) -> dict[str, str | int]:
    await flo.actions.wait(f"{GATE}-1")
    return {"by": worker_id, "attempt": ctx.attempt}


if __name__ == "__main__":
    worker.run()
