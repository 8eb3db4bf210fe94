"""Processes orders and sends emails: two actions, one worker."""

import logging

import msgspec

from flo import ActionContext, ActionWorker

log = logging.getLogger("orders")
worker = ActionWorker(namespace="myapp", concurrency=10, action_timeout=300)


class Item(msgspec.Struct):
    sku: str
    quantity: int = 1


class OrderRequest(msgspec.Struct):
    order_id: str
    customer_id: str
    amount: float
    items: list[Item] = []


@worker.action("process-order")
async def process_order(ctx: ActionContext, order: OrderRequest) -> dict[str, str]:
    log.info("Processing order %s ($%.2f)", order.order_id, order.amount)
    for number, item in enumerate(order.items, start=1):
        log.info("  Item %d/%d: %s", number, len(order.items), item.sku)
        if number % 3 == 0:
            await ctx.touch(30_000)  # extend the lease every third item
    return {"order_id": order.order_id, "status": "processed"}


@worker.action("send-email")
def send_email(ctx: ActionContext) -> bytes:  # a plain function runs in a thread
    email = ctx.json()
    log.info("Sending email to %s", email["to"])
    return ctx.to_bytes({"status": "sent"})


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    worker.run()
