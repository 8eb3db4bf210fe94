"""A worker that holds each task until a gate is open: python held_worker.py ADDRESS NAME GATE.

The gate is a run: it is open once that has ended.
"""

import sys

from flo import ActionContext, ActionWorker, Flo

HOUR_MS = 3_600_000

address, name, gate = sys.argv[1:]
flo = Flo(address)
worker = ActionWorker(address, worker_id=name, concurrency=10)


@worker.action("hold", timeout_ms=HOUR_MS, max_retries=1, retry_delay_ms=HOUR_MS)
async def hold(ctx: ActionContext) -> dict[str, object]:
    await flo.actions.wait(gate)
    return {"by": name, "attempt": ctx.attempt}


if __name__ == "__main__":
    worker.run()
