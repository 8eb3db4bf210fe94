import asyncio

from flo import Conflict, Flo


async def reserve(flo: Flo, item: str, order: str) -> bool:
    """Take one from the stock for an order; all of it happens, or none."""
    while True:
        try:
            async with flo.kv.transaction() as txn:
                stock = int((await txn.get(f"stock:{item}")).value or 0)
                if not stock:
                    return False
                txn.put(f"stock:{item}", stock - 1)
                txn.put(f"reserved:{order}", item)
                txn.increment("reservations")
        except Conflict as conflict:
            if conflict.code != "version_mismatch":
                raise
            continue  # somebody else was faster: look again
        return True


async def main() -> None:
    async with Flo() as flo:
        await flo.kv.put("stock:chair", 3)
        reserved = await asyncio.gather(*(reserve(flo, "chair", f"ORD-{n}") for n in range(10)))
        print(sum(reserved), "of", len(reserved), "were reserved")
        print("Left:", (await flo.kv.get("stock:chair")).value)
        print("Orders:", len((await flo.kv.scan("reserved:")).items))


asyncio.run(main())
