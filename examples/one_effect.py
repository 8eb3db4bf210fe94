import asyncio

from flo import Flo, idempotency_key


async def main() -> None:
    async with Flo() as flo:
        for _ in range(2):  # the second time as after a timeout
            with idempotency_key("order-7-paid"):
                counted = await flo.kv.increment("paid-orders")
            print("paid orders:", counted)


asyncio.run(main())
