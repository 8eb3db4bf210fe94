import msgspec

from flo import ActionContext, ActionWorker, NonRetryableError

worker = ActionWorker(concurrency=10, action_timeout=300)


class Item(msgspec.Struct):
    sku: str
    quantity: int = 1


class Order(msgspec.Struct):
    order_id: str
    items: list[Item] = []


@worker.action("process-order")
async def process_order(context: ActionContext, order: Order) -> dict[str, str]:
    for number, item in enumerate(order.items, start=1):
        print(f"item {number}/{len(order.items)}: {item.sku}")
        if number % 3 == 0:
            await context.touch(30_000)  # extend the lease
    return {"order_id": order.order_id, "status": "processed"}


@worker.action("validate-order")
def validate_order(context: ActionContext) -> dict[str, bool]:  # sync handlers run in threads
    order = context.json()
    if not order.get("order_id"):
        raise NonRetryableError("missing order_id")
    return {"valid": True}


if __name__ == "__main__":
    worker.run()
