import asyncio
from pathlib import Path

from flo import Flo


async def main() -> None:
    async with Flo() as flo:
        await flo.workflows.create(Path(__file__).with_name("order-processing.yaml"))
        order = {"order_id": "ORD-1", "amount": 900}
        run = await flo.workflows.start("order-processing", order, idempotency_key="ORD-1")
        await run.signal("approval", {"approved_by": "finance"})
        print(await run.result())
        async for entry in run.history():
            print(entry.type, entry.detail)


asyncio.run(main())
