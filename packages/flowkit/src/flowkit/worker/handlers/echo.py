"""EchoHandler: five short steps that can be cancelled, to see a worker at work."""

import asyncio

from flo import Batch, BatchResult, RoleHandler, RunContext

STEPS = 5
STEP_S = 0.05


class EchoHandler(RoleHandler):
    role = "echo"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        for _ in range(STEPS):
            await ctx.cancellable(asyncio.sleep(STEP_S))
        return BatchResult(success=True, metrics={"echoed": STEPS})
