"""Validates orders: what is wrong with one will be wrong with it tomorrow."""

from flo import ActionContext, ActionWorker, NonRetryableError

worker = ActionWorker()


@worker.action("validate-order")
async def validate_order(ctx: ActionContext) -> dict[str, bool | str]:
    order = ctx.json()
    if not order.get("orderId"):
        raise NonRetryableError("missing orderId")
    if order.get("amount", 0) > 2000:
        raise NonRetryableError(f"order amount ${order['amount']} exceeds $2000 limit")
    return {"valid": True, "orderId": order["orderId"]}


if __name__ == "__main__":
    worker.run()
