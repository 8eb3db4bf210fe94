"""The actions of order-processing.yaml.

flo server start
flo workflow create -f examples/order-processing.yaml
python examples/order_actions.py
flo workflow start order-processing '{"order_id": "ORD-1", "amount": 900}' --idempotency-key ORD-1

A payment has a key, which is the same at every attempt. The bank takes the money of a key once, and
never after a refund, so neither a second attempt nor one that is late can do harm.
"""

import sys
from typing import Any

from flo import ActionContext, ActionResult, ActionWorker, NonRetryableError

APPROVAL_FROM = 500

charged: dict[str, float] = {}
"""What a bank would know: payment key → amount."""
refunded: set[str] = set()

worker = ActionWorker(sys.argv[1] if len(sys.argv) > 1 else None, concurrency=8)


@worker.action("validate-order", max_retries=0)
async def validate_order(order: dict[str, Any]) -> dict[str, Any]:
    if order.get("amount", 0) <= 0:
        raise NonRetryableError("expected an amount above 0")
    return {"order_id": order["order_id"]}


@worker.action("charge-payment", max_retries=0)
async def charge_payment(payment: dict[str, Any]) -> dict[str, Any]:
    key = payment["payment_key"]
    if key in refunded:
        raise NonRetryableError("it has been refunded", code="payment_refunded")
    charged.setdefault(key, payment["amount"])
    return {"payment_id": f"pay-{payment['order_id']}", "amount": charged[key]}


@worker.action("refund-payment")
async def refund_payment(payment: dict[str, Any]) -> dict[str, Any]:
    key = payment["payment_key"]
    refunded.add(key)
    return {"refunded": charged.pop(key, 0)}


@worker.action("check-approval-needed", max_retries=0)
async def check_approval_needed(ctx: ActionContext) -> ActionResult:
    amount = ctx.json()["amount"]
    return ctx.result("failure" if amount >= APPROVAL_FROM else "success", {"amount": amount})


@worker.action("ship-order", max_retries=0)
async def ship_order(order: dict[str, Any]) -> dict[str, Any]:
    return {"order_id": order["order_id"], "status": "shipped"}


if __name__ == "__main__":
    worker.run()
