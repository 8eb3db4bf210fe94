"""The worker of the demo: two actions, one of them not always lucky.

flo server start
python examples/demo_worker.py
"""

import asyncio
import random
import sys

from flo import ActionContext, ActionWorker

worker = ActionWorker(sys.argv[1] if len(sys.argv) > 1 else None, concurrency=8)


@worker.action("resize-image", max_retries=3, retry_delay_ms=200)
async def resize_image(context: ActionContext, image: dict[str, str]) -> dict[str, str]:
    await asyncio.sleep(random.uniform(0.1, 0.5))
    if image["name"].endswith("7.png") and context.attempt == 1:
        raise ConnectionError("the image store did not answer")
    return {"name": image["name"], "thumbnail": image["name"].replace(".png", "-small.png")}


@worker.action("charge-card", max_retries=2, retry_delay_ms=200)
async def charge_card(context: ActionContext, order: dict[str, int]) -> dict[str, int | str]:
    await asyncio.sleep(random.uniform(0.1, 0.3))
    if order["amount"] > 1000:
        raise RuntimeError("the bank is out of reach")
    return {"order": order["order"], "status": "charged"}


if __name__ == "__main__":
    worker.run()
