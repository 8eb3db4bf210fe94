"""Charges cards: each failure has a code, by which plans and callers know it."""

from typing import Any

from flo import ActionError, ActionWorker, NonRetryableError

worker = ActionWorker()


@worker.action("charge-card")
async def charge_card(payment: dict[str, Any]) -> dict[str, Any]:
    if payment["card"] == "expired":
        raise NonRetryableError("card refused", code="invalid_card")  # failed at once
    if payment["bank"] == "closed":
        raise ActionError("the bank is closed", code="bank_closed")  # tried again
    return {"charged": payment["amount"]}


if __name__ == "__main__":
    worker.run()
