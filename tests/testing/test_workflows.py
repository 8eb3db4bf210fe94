"""The testing kit of workflows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flo import ActionResult
from flo.model.actions import DisableAction
from flo.model.errors import Invalid
from flo.testing.workflows import workflow_test

ORDER = Path(__file__).parents[2] / "examples" / "order-processing.yaml"
HEAD = 'kind: Workflow\nname: small\nversion: "1"\n'
SMALL = HEAD + 'start: {run: "@actions/work", transitions: {success: flo.Completed}}\n'


async def test_an_order_without_an_approval_is_rejected_after_an_hour():
    async with workflow_test(ORDER) as test:
        test.action("validate-order", returns={"ok": True})
        test.action("charge-payment", fails="card_declined", times=2).then(returns={"id": 7})
        test.action("check-approval-needed", outcome="failure")
        test.action("refund-payment")
        run = await test.start({"order_id": "o-1", "amount": 900}, idempotency_key="o-1")
        await test.until(run, waiting_for="approval")
        await test.pass_time(minutes=59)
        assert not run.has_ended
        await test.pass_time(minutes=1)

    assert run.path == [
        "start",
        "process_payment",
        "check_approval",
        "await_approval",
        "OrderRejected",
    ]
    assert run.status == "failed"
    payment = {"order_id": "o-1", "amount": 900, "payment_key": "wfrun-1"}
    assert test.calls("charge-payment") == [payment] * 3
    assert test.calls("refund-payment") == [{"payment_key": "wfrun-1"}]
    assert run.details_of("step_retry") == ["process_payment"] * 2


async def test_an_order_with_an_approval_is_shipped():
    async with workflow_test(ORDER) as test:
        for action in ("validate-order", "charge-payment"):
            test.action(action)
        test.action("check-approval-needed", outcome="failure")
        test.action("ship-order", returns={"parcel": 1})
        run = await test.start({}, idempotency_key="o-1")
        await test.signal(run, "approval", {"by": "finance"})
        again = await test.start({}, idempotency_key="o-1")

    assert run.path[-2:] == ["fulfill", "OrderCompleted"]
    assert run.output == {"parcel": 1}
    assert run.step("await_approval").output == b'{"by":"finance"}'
    assert again is run
    assert again.duplicate


async def test_a_retry_happens_at_its_context():
    async with workflow_test(ORDER) as test:
        seen = []

        def charge(order):
            seen.append(test.now)
            raise ConnectionError("the bank is out of reach")

        test.action("validate-order")
        test.action("charge-payment", does=charge)
        begun = test.now
        run = await test.ended(await test.start(idempotency_key="o-1"))

    assert [context - begun for context in seen] == [timedelta(seconds=s) for s in (0, 1, 3)]
    assert run.path == ["start", "process_payment", "PaymentFailed"]
    assert "the bank is out of reach" in run.error


async def test_a_function_may_name_its_outcome_and_assert():
    async with workflow_test(SMALL) as test:
        test.action("work", does=lambda given: ActionResult("odd", given["n"]))
        run = await test.start({"n": 3})
        assert (run.step("start").outcome, run.step("start").output) == ("odd", b"3")

        async def refuse(given):
            assert given == {"n": 4}

        test.action("work", does=refuse)
        with pytest.raises(AssertionError, match="'n': 5"):
            await test.start({"n": 5})


@pytest.mark.parametrize(
    ("how", "outcome"), [({"times_out": True}, "timeout"), ({"fails": "boom"}, "failure")]
)
async def test_an_action_may_have_its_effect_and_nobody_hears_of_it(how, outcome):
    async with workflow_test(SMALL) as test:
        taken = []
        test.action("work", does=taken.append, **how)
        run = await test.start({"n": 3})

    assert taken == [{"n": 3}]
    assert run.step("start").outcome == outcome


async def test_an_action_may_have_its_effect_and_hang():
    async with workflow_test(SMALL) as test:
        taken = []
        test.action("work", does=taken.append, hangs=True)
        run = await test.start({"n": 3})

    assert taken == [{"n": 3}]
    assert not run.has_ended


async def test_a_function_does_not_go_with_a_value():
    async with workflow_test(SMALL) as test:
        with pytest.raises(Invalid, match="got returns and does"):
            test.action("work", does=print, returns=1)


async def test_an_action_that_nobody_has_spoken_of_is_named():
    async with workflow_test(ORDER) as test:
        with pytest.raises(AssertionError, match=r'test\.action\("validate-order", returns='):
            await test.start({"amount": 1}, idempotency_key="o-1")


async def test_an_action_that_the_workflow_does_not_have_is_refused():
    async with workflow_test(ORDER) as test:
        with pytest.raises(Invalid, match="did you mean 'charge-payment'") as raised:
            test.action("charge-paymnt")
    assert raised.value.code == "unknown_action"


async def test_more_calls_than_were_spoken_of_are_an_error():
    async with workflow_test(SMALL) as test:
        test.action("work", times=1)
        await test.start()
        with pytest.raises(AssertionError, match="at most 1 calls of 'work'"):
            await test.start()


def test_two_ways_to_answer_at_a_time_are_refused():
    test = workflow_test(SMALL)

    with pytest.raises(Invalid, match="got returns and fails"):
        test.action("work", returns=1, fails="no")
    with pytest.raises(Invalid, match="a number of times"):
        test.action("work", fails="no").then(returns=1)
    with pytest.raises(Invalid, match="at least 1"):
        test.action("work", times=0)


def test_every_problem_of_a_document_is_shown():
    text = HEAD + 'start: {run: "@actions/work", transitions: {success: nowhere, failure: gone}}\n'

    with pytest.raises(Invalid, match=r"(?s)'nowhere'.*'gone'"):
        workflow_test(text)


async def test_a_wait_that_cannot_end_says_why():
    async with workflow_test(SMALL) as test:
        test.action("work", hangs=True)
        run = await test.start()
        with pytest.raises(AssertionError, match=r"(?s)wfrun-1 to end.*work-1"):
            await test.ended(run)
        with pytest.raises(AssertionError, match="signal of type 'approval'"):
            await test.until(run, waiting_for="approval")
        with pytest.raises(Invalid, match="expected one of"):
            await test.until(run)


async def test_what_times_out_and_what_is_disabled_have_their_outcomes():
    text = SMALL.replace(
        "success: flo.Completed",
        "success: flo.Completed, timeout: flo.TimedOut, target_disabled: flo.Cancelled",
    )
    async with workflow_test(text) as test:
        test.action("work", times_out=True)
        late = await test.start()
        await test.ask(DisableAction(name="work"))
        refused = await test.start()

    assert (late.status, refused.status) == ("timed_out", "cancelled")


async def test_branches_have_paths_of_their_own():
    text = HEAD + (
        "start:\n"
        "  parallel:\n"
        "    branches:\n"
        '      email: "@actions/email"\n'
        "      payment:\n"
        '        start: {run: "@actions/hold", transitions: {success: capture}}\n'
        "        steps:\n"
        '          capture: {run: "@actions/capture", transitions: {success: flo.Completed}}\n'
        "  transitions: {success: flo.Completed}\n"
    )
    async with workflow_test(text) as test:
        for action in ("email", "hold", "capture"):
            test.action(action, returns=action)
        run = await test.start()

    assert run.path == ["start", "flo.Completed"]
    assert run.path_of("start/payment") == ["payment", "capture"]
    assert run.output == {"email": "email", "payment": "capture"}


async def test_what_was_done_is_undone_and_can_be_rerun():
    text = HEAD + (
        "start:\n"
        '  run: "@actions/reserve"\n'
        '  rollback: "@actions/release"\n'
        "  transitions: {success: charge}\n"
        "steps:\n"
        '  charge: {run: "@actions/charge", transitions: {success: flo.Completed,'
        " failure: flo.Failed}}\n"
    )
    async with workflow_test(text) as test:
        test.action("reserve", returns={"seat": 4})
        test.action("release")
        test.action("charge", fails="no", times=1).then(returns="paid")
        run = await test.start()
        again = await test.rerun(run, step="charge")

    assert (run.status, run.undone) == ("failed", ["start"])
    assert test.calls("release") == [{"seat": 4}]
    assert again.path == ["charge", "flo.Completed"]


async def test_a_child_is_a_workflow_beside_it():
    child = SMALL.replace("small", "kid")
    parent = HEAD + 'start: {run: "@workflow/kid", transitions: {success: flo.Completed}}\n'
    async with workflow_test(parent, child) as test:
        test.action("work", returns=7)
        run = await test.ended(await test.start())
        children = await test.runs("kid")

    assert run.output == 7
    assert [one.status for one in children] == ["completed"]


async def test_a_paused_run_goes_on_when_it_is_resumed_and_a_cancelled_one_does_not():
    text = HEAD + "start: {sleep: 5s, transitions: {success: flo.Completed}}\n"
    async with workflow_test(text) as test:
        run, other = await test.start(), await test.start()
        await test.pause(run)
        await test.cancel(other, "not wanted")
        await test.pass_time(days=3)
        assert not run.has_ended
        await test.resume(run)
        await test.ended(run)

    assert (run.status, other.status, other.error) == ("completed", "cancelled", "not wanted")


async def test_a_schedule_starts_runs_as_the_days_pass():
    text = SMALL + 'schedule: {cron: "0 6 * * *", input: {mode: full}}\n'
    async with workflow_test(text, at=datetime(2026, 3, 1, 12, tzinfo=UTC)) as test:
        test.action("work")
        await test.pass_time(days=365)
        runs = await test.runs()

    assert len(runs) == 365
    assert test.calls("work") == [{"mode": "full"}] * 365


async def test_events_of_a_stream_start_runs():
    async with workflow_test(SMALL + "trigger: {stream: orders, namespace: shop}\n") as test:
        test.action("work")
        first, second = await test.append({"id": 1}, {"id": 2})
        (third,) = await test.append({"id": 3})
        runs = await test.runs()

    assert test.calls("work") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert runs == [first, second, third]
    assert {run.view.triggered_by for run in runs} == {"trigger"}


BATCHES = SMALL + "trigger: {stream: orders, batch_size: 3, batch_timeout_ms: 5000}\n"


async def test_a_batch_of_events_is_the_input_of_one_run():
    async with workflow_test(BATCHES) as test:
        test.action("work", returns="done")
        (run,) = await test.append({"id": 1}, {"id": 2}, {"id": 3})

    assert test.calls("work") == [[{"id": 1}, {"id": 2}, {"id": 3}]]
    assert (run.status, run.output, run.view.triggered_by) == ("completed", "done", "trigger")


async def test_events_that_fill_several_batches_start_as_many_runs():
    async with workflow_test(BATCHES) as test:
        test.action("work")
        runs = await test.append(*range(7))

    assert len(runs) == 2
    assert test.calls("work") == [[0, 1, 2], [3, 4, 5]]


async def test_a_batch_that_is_not_full_starts_its_run_at_its_context():
    async with workflow_test(BATCHES) as test:
        test.action("work")
        assert await test.append(1, 2) == []
        begun = test.now
        await test.pass_time(seconds=4)
        assert await test.runs() == []
        await test.pass_time(days=1)
        (run,) = await test.runs()

    assert test.calls("work") == [[1, 2]]
    assert run.view.created_at_ms == begun.timestamp() * 1_000 + 5_000


async def test_a_batch_that_fills_up_in_time_does_not_wait():
    async with workflow_test(BATCHES) as test:
        test.action("work")
        await test.append(1, 2)
        await test.pass_time(seconds=4)
        (run,) = await test.append(3)
        await test.pass_time(days=1)

    assert test.calls("work") == [[1, 2, 3]]
    assert run.has_ended


async def test_a_workflow_without_a_trigger_takes_no_events():
    async with workflow_test(SMALL) as test:
        with pytest.raises(Invalid, match="a workflow with a trigger"):
            await test.append({})


async def test_a_long_history_is_read_to_its_end():
    text = HEAD + (
        'start: {run: "@actions/work", poll: {max_attempts: 400, backoff: constant},'
        " transitions: {success: flo.Completed}}\n"
    )
    async with workflow_test(text) as test:
        test.action("work", outcome="pending", times=350).then(returns="at last")
        run = await test.ended(await test.start())

    assert run.path == ["start", "flo.Completed"]
    assert len(run.details_of("poll_scheduled")) == 350
    assert len(run.history) == run.view.history_count
