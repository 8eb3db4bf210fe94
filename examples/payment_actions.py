"""The actions of payment-processing.yaml: two providers, of which the first can be out of order.

flo server start
flo workflow create -f examples/payment-processing.yaml
STRIPE=down python examples/payment_actions.py
flo workflow start payment-processing '{"customer_id": "C-7", "amount": 20}' --idempotency-key P-1

An action says which kind of error it has by a code. Its own retries are off, because the plan does
the retrying; what raises NonRetryableError is not tried again by the plan either.
"""

import os
from typing import Any

from flo import ActionContext, ActionError, ActionResult, ActionWorker, NonRetryableError

worker = ActionWorker(concurrency=8)


@worker.action("charge-stripe", max_retries=0)
async def charge_stripe(payment: dict[str, Any]) -> dict[str, Any]:
    if os.environ.get("STRIPE") == "down":
        raise ActionError("the provider does not answer", code="out_of_order")
    if payment["amount"] > 10_000:
        raise NonRetryableError("nobody pays so much", code="fraud_detected")
    return {"payment_id": f"stripe-{payment['customer_id']}", "provider": "stripe"}


@worker.action("charge-adyen", max_retries=0)
async def charge_adyen(ctx: ActionContext) -> ActionResult:
    """This provider takes the order, and says later how it ended."""
    payment = ctx.json()
    said = {"payment_id": f"adyen-{payment['customer_id']}", "provider": "adyen"}
    return ctx.result("pending" if payment["amount"] > 100 else "success", said)


@worker.action("check-payment-status", max_retries=0)
async def check_payment_status(payment: dict[str, Any]) -> dict[str, Any]:
    return {**payment, "status": "settled"}


@worker.action("send-notification", max_retries=0)
async def send_notification(message: dict[str, Any]) -> dict[str, Any]:
    return {"sent": message["template"]}


if __name__ == "__main__":
    worker.run()
