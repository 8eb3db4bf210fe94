import asyncio

from flo import Flo


async def main() -> None:
    async with Flo() as flo:
        invocation = await flo.actions.invoke(
            "send-email",
            {"to": "bob@example.com", "subject": "Hello"},
            idempotency_key="hello-bob",
        )
        print(await invocation.result())

        emails = [{"to": f"user-{n}@example.com", "subject": "News"} for n in range(100)]
        many = await flo.actions.invoke_many("send-email", emails, priority=5)
        results = await asyncio.gather(*(one.result() for one in many))
        print(len(results), "sent")


asyncio.run(main())
