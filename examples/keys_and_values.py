import asyncio

from flo import Conflict, Flo


async def main() -> None:
    async with Flo() as flo:
        version = await flo.kv.put("user:1", {"name": "Alice", "visits": 0})
        await flo.kv.set_json("user:1", 1, "$.visits")
        print(await flo.kv.get_json("user:1"))

        try:
            await flo.kv.put("user:1", {"name": "Bob"}, if_version=version)
        except Conflict as conflict:
            print(conflict.code, conflict.details["key"])

        await flo.kv.put("lock:report", "worker-1", if_absent=True, ttl=60)
        print("Counted:", await flo.kv.increment("hits"), await flo.kv.increment("hits", 10))
        print([key async for key in flo.kv.keys("user:")])

        waiting = asyncio.create_task(flo.kv.wait("ready", timeout=30))
        await flo.kv.put("ready", "yes")  # from anywhere
        print("Ready:", (await waiting).value)


asyncio.run(main())
