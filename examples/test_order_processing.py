from pathlib import Path

from flo.testing.workflows import workflow_test

ORDER = Path(__file__).with_name("order-processing.yaml")


async def test_a_large_order_that_nobody_approves_is_rejected() -> None:
    async with workflow_test(ORDER) as test:
        test.action("validate-order", returns={"ok": True})
        test.action("charge-payment", fails="bank_closed", times=2).then(returns={"id": 7})
        test.action("check-approval-needed", outcome="failure")
        test.action("refund-payment")

        run = await test.start({"amount": 900}, idempotency_key="ORD-1")
        await test.until(run, waiting_for="approval")  # both retries have passed by now
        await test.pass_time(hours=1)

    assert run.status == "failed"
    assert run.path == [
        *("start", "process_payment", "check_approval", "await_approval"),
        "OrderRejected",
    ]
    assert len(test.calls("charge-payment")) == 3
    assert run.undone == ["process_payment"]
