"""Reviews orders: the outcome has a name, and a workflow follows the transition of that name."""

from flo import ActionContext, ActionResult, ActionWorker

worker = ActionWorker()


@worker.action("review-order")
async def review_order(ctx: ActionContext) -> ActionResult:
    order = ctx.json()
    order_id, amount = order["orderId"], order["amount"]
    if amount < 100:
        return ctx.result("approved", {"orderId": order_id, "decision": "auto-approved"})
    if amount >= 500:
        return ctx.result("rejected", {"orderId": order_id, "reason": "amount too high"})
    return ctx.result("needs_review", {"orderId": order_id, "note": "manual review required"})


if __name__ == "__main__":
    worker.run()
