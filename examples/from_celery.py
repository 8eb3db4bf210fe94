"""What a Celery application does, on Flo: tasks, a retry, a chain, a group and a chord."""

import asyncio

from flo import ActionContext, ActionError, ActionWorker, Flo

worker = ActionWorker(concurrency=8)


@worker.action("fetch", timeout_ms=30_000, max_retries=3, retry_delay_ms=100)
async def fetch(ctx: ActionContext, url: str) -> str:
    if ctx.attempt == 1:
        raise ActionError("the site is busy", code="busy")  # self.retry(...)
    return f"<html>{url}</html>"


@worker.action("count-words")
def count_words(ctx: ActionContext, page: str) -> int:  # sync handlers run in threads
    return len(page.split("<"))


async def main() -> None:
    async with Flo() as flo:
        serving = asyncio.ensure_future(worker.serve())
        for name in ("fetch", "count-words"):  # a worker does this as it starts
            await flo.actions.register(name, max_retries=3, retry_delay_ms=100, if_changed=True)

        page = await flo.actions.invoke("fetch", "https://a.example", delay_ms=50)
        counted = await flo.actions.invoke("count-words", await page.result())  # a chain
        print("chain:", await counted.result(timeout=10))

        urls = ["https://b.example", "https://c.example"]
        runs = await flo.actions.invoke_many("fetch", urls)  # a group
        pages = await asyncio.gather(*[run.result() for run in runs])
        print("chord:", sum(len(page) for page in pages))

        worker.stop()
        await serving


asyncio.run(main())
