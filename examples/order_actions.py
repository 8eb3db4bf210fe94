"""The actions of order-processing.yaml.

flo server start
flo workflow create -f examples/order-processing.yaml
python examples/order_actions.py
flo workflow start order-processing '{"order_id": "ORD-1", "amount": 900}' --idempotency-key ORD-1
"""

import sys
from typing import Any

from flo import ActionContext, ActionResult, ActionWorker, NonRetryableError

APPROVAL_FROM = 500

worker = ActionWorker(sys.argv[1] if len(sys.argv) > 1 else None, concurrency=8)


@worker.action("validate-order", max_retries=0)
async def validate_order(order: dict[str, Any]) -> dict[str, Any]:
    if order.get("amount", 0) <= 0:
        raise NonRetryableError("expected an amount above 0")
    return {"order_id": order["order_id"]}


@worker.action("charge-payment", max_retries=0)
async def charge_payment(order: dict[str, Any]) -> dict[str, Any]:
    return {"payment_id": f"pay-{order['order_id']}", "amount": order["amount"]}


@worker.action("check-approval-needed", max_retries=0)
async def check_approval_needed(ctx: ActionContext) -> ActionResult:
    amount = ctx.json()["amount"]
    return ctx.result("failure" if amount >= APPROVAL_FROM else "success", {"amount": amount})


@worker.action("ship-order", max_retries=0)
async def ship_order(order: dict[str, Any]) -> dict[str, Any]:
    return {"order_id": order["order_id"], "status": "shipped"}


if __name__ == "__main__":
    worker.run()
