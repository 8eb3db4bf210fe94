import asyncio

from flo import Flo


async def main() -> None:
    async with Flo() as flo:
        await flo.actions.register(
            "process-image",
            timeout_ms=60_000,
            max_retries=3,
            description="Resize and optimize images",
        )
        invocation = await flo.actions.invoke(
            "process-image",
            {"url": "https://example.com/img.jpg", "width": 800},
            priority=100,
            idempotency_key="img-resize-abc",
        )
        print("Run ID:", invocation.run_id)

        run = await invocation.status()
        print("Status:", run.status)

        again = await flo.actions.invoke("process-image", {}, idempotency_key="img-resize-abc")
        print("The same run:", again.run_id == invocation.run_id)

        await flo.actions.delete("process-image")


asyncio.run(main())
