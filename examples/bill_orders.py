"""Bills the orders of a stream; kill it at any time, and start it again."""

import asyncio
import json
from contextlib import suppress

from flo import Conflict, Flo


def bill(order: dict[str, int]) -> None:
    print(f"order {order['order']}: {order['total']} francs")


async def main() -> None:
    async with Flo() as flo:
        group = flo.streams.group("orders", "billing")
        with suppress(Conflict):  # it is there already
            await group.create(ack_timeout=30, max_deliveries=3)

        while (taken := await group.read("biller-1", limit=10)).items:  # block=30 would wait
            for record in taken.items:
                try:
                    bill(json.loads(record.payload))
                except ValueError:
                    await group.nack(record.stream_id)  # it comes again, three times at most
                else:
                    await group.ack(record.stream_id)

        for dead in (await group.dead()).items:
            print("given up:", dead.record.payload.decode())


asyncio.run(main())
