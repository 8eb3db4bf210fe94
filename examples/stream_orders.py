import asyncio
import json

from flo import Flo, NewRecord


async def main() -> None:
    async with Flo() as flo:
        appended = await flo.streams.append("orders", {"order": 1, "total": 99}, key="alice")
        print("Durable:", appended.count)

        await flo.streams.append_many(
            "orders",
            [
                {"order": 2, "total": 5},
                NewRecord(payload=b'{"order":3,"total":7}', key="bob", headers={"source": "shop"}),
            ],
        )

        after = "0-0"
        while (page := await flo.streams.read("orders", after=after, limit=2)).items:
            for record in page.items:
                print(record.sequence, record.key, json.loads(record.payload)["total"])
            after = page.last

        async for record in flo.streams.follow("orders", last=1):
            print("The newest:", record.payload.decode())
            break  # without this, it would wait for the next one, and the next


asyncio.run(main())
