"""Every document of the seed is accepted as it is, and means what its text says."""

import pytest
import yaml

from flo.workflow.definition import (
    AttributeType,
    Catchup,
    Idempotency,
    Schedule,
    SearchAttribute,
    Terminal,
    TerminalKind,
    Trigger,
    TriggerMode,
)
from flo.workflow.document.problem import Severity
from flo.workflow.document.read import read
from flo.workflow.plan.plan import (
    Breaker,
    Cache,
    ErrorClasses,
    Executor,
    Fallback,
    FallbackCondition,
    Health,
    Plan,
    RateLimit,
    Selection,
    Tracking,
    TrackingMode,
)
from flo.workflow.retry import Backoff, Poll, Retry
from flo.workflow.steps import RunStep, SignalStep, SignalWait, Target, TargetKind

from .documents import SEED

FRAGMENTS = yaml.safe_load((SEED / "fragments.yaml").read_text())
DOCUMENTS = sorted(path.name for path in SEED.glob("*.yaml") if path.name != "fragments.yaml")


def definition_of(name):
    definition, problems = read((SEED / name).read_text())
    assert [one for one in problems if one.severity is Severity.ERROR] == []
    assert definition is not None
    return definition


def action(name):
    return Target(kind=TargetKind.ACTION, name=name)


def around(**parts):
    """A workflow around a fragment, with a step for every name that it leads to."""
    steps = dict(parts.pop("steps", {}))
    start = parts.pop("start", None) or {
        "run": "@actions/a",
        "transitions": _ending(next(iter(steps), None)),
    }
    goals = [goal for step in (start, *steps.values()) for goal in _goals(step)]
    for goal in goals:
        if not goal.startswith("flo.") and goal not in steps:
            steps[goal] = {"run": "@actions/other", "transitions": _ending(None)}
    document = {"kind": "Workflow", "name": "w", "version": "1", "start": start, "steps": steps}
    definition, problems = read(yaml.safe_dump({**document, **parts}, sort_keys=False))
    assert definition is not None, problems
    return definition


def _ending(goal):
    return {"success": goal or "flo.Completed", "failure": "flo.Failed"}


def _goals(step):
    yield from step.get("transitions", {}).values()
    if "onTimeout" in step.get("waitForSignal", {}):
        yield step["waitForSignal"]["onTimeout"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_of_the_seed_is_accepted(name):
    assert definition_of(name).version == "1.0.0"


def test_there_are_five_documents():
    assert len(DOCUMENTS) == 5


def test_process_order():
    definition = definition_of("process-order.yaml")

    assert definition.name == "process-order"
    assert definition.idempotency is Idempotency.REQUIRED
    assert definition.start == RunStep(
        run=action("validate-order"), transitions={"success": "charge", "failure": "flo.Failed"}
    )
    assert list(definition.steps) == ["charge", "ship"]
    assert definition.steps["charge"].retry == Retry(
        max_attempts=3,
        backoff=Backoff.EXPONENTIAL,
        initial_delay_ms=1_000,
        max_delay_ms=30_000,
        within_ms=None,
    )
    assert definition.steps["ship"].transitions["success"] == "flo.Completed"


def test_order_processing():
    definition = definition_of("order-processing.yaml")

    assert definition.terminals == {
        "OrderCompleted": Terminal(status=TerminalKind.COMPLETED),
        "OrderRejected": Terminal(status=TerminalKind.FAILED),
        "PaymentFailed": Terminal(status=TerminalKind.FAILED),
    }
    assert definition.steps["await_approval"] == SignalStep(
        wait_for_signal=SignalWait(
            type="approval", timeout_ms=3_600_000, on_timeout="OrderRejected"
        ),
        transitions={"success": "fulfill"},
    )
    assert definition.steps["check_approval"].transitions == {
        "success": "fulfill",
        "failure": "await_approval",
    }
    assert definition.ending_of("OrderRejected") is TerminalKind.FAILED
    assert definition.ending_of("flo.TimedOut") is TerminalKind.TIMED_OUT
    assert definition.ending_of("fulfill") is None


def test_payment_processing():
    definition = definition_of("payment-processing.yaml")

    assert definition.start.run == Target(kind=TargetKind.PLAN, name="charge-payment")
    assert definition.start.input_mapping == (
        '{"customer_id": "$.input.customer_id", "amount": "$.input.amount"}'
    )
    assert definition.steps["check_payment_status"].poll == Poll(
        initial_delay_ms=2_000,
        max_attempts=30,
        backoff=Backoff.EXPONENTIAL,
        base_delay_ms=2_000,
        max_delay_ms=30_000,
    )
    assert definition.plans == {
        "charge-payment": Plan(
            selection=Selection.HEALTH_WEIGHTED,
            executors=(
                Executor(
                    name="stripe-primary",
                    action=action("charge-stripe"),
                    priority=100,
                    retry=Retry(
                        max_attempts=3,
                        backoff=Backoff.EXPONENTIAL,
                        initial_delay_ms=1_000,
                        max_delay_ms=30_000,
                        within_ms=120_000,
                    ),
                    breaker=Breaker(failure_threshold=5, cooldown_ms=30_000, half_open_max_calls=3),
                    rate_limit=RateLimit(max_per_second=100),
                    tracking=Tracking(mode=TrackingMode.ASYNC, timeout_ms=300_000),
                ),
                Executor(
                    name="adyen-fallback",
                    action=action("charge-adyen"),
                    priority=50,
                    retry=Retry(max_attempts=2, backoff=Backoff.EXPONENTIAL_JITTER),
                ),
            ),
            health=Health(window_ms=300_000, decay=0.9, min_samples=10),
            cache=Cache(
                ttl_ms=3_600_000,
                key="charge:{input.customer_id}:{input.idempotency_key}",
                invalidate_on=("payment.refunded",),
            ),
            fallback=Fallback(
                value='{"status": "declined", "reason": "all_providers_unavailable"}',
                condition=FallbackCondition.EXHAUSTED,
            ),
            errors=ErrorClasses(
                retryable=("timeout", "rate_limited"), fatal=("invalid_card", "fraud_detected")
            ),
        )
    }


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("order-processing.yaml", ["process_payment", "check_approval"]),
        ("order-processor.yaml", []),
        ("payment-processing.yaml", ["notify_customer"]),
        ("process-order.yaml", []),
        ("reconcile-accounts.yaml", []),
    ],
)
def test_the_only_warnings_are_of_timeouts_that_do_not_go_where_failures_go(name, steps):
    _, problems = read((SEED / name).read_text())

    assert [one.code for one in problems] == ["E210"] * len(steps)
    assert [one.path for one in problems] == [f"steps.{step}.transitions" for step in steps]


def test_reconcile_accounts():
    assert definition_of("reconcile-accounts.yaml").schedule == Schedule(
        cron="0 */6 * * *",
        interval_ms=None,
        timezone="UTC",
        max_concurrent=1,
        input='{"mode": "full"}',
        paused=False,
        catchup=Catchup.ONE,
    )


def test_order_processor():
    assert definition_of("order-processor.yaml").trigger == Trigger(
        stream="orders",
        namespace="prod",
        consumer_group="wf-orders",
        mode=TriggerMode.SHARED,
        batch_size=1,
    )


def test_named_outcomes():
    definition = around(start=FRAGMENTS["outcome_routing"]["start"])

    assert definition.start.transitions == {
        "approved": "fulfill",
        "rejected": "notify_rejection",
        "needs_review": "manual_review",
        "failure": "flo.Failed",
    }


def test_a_run_step_with_retry_and_poll():
    charge = around(steps=FRAGMENTS["run_step"]).steps["charge"]

    assert charge.retry == Retry(max_attempts=3, backoff=Backoff.EXPONENTIAL)
    assert charge.poll == Poll(max_attempts=10, backoff=Backoff.EXPONENTIAL)
    assert charge.transitions["pending"] == "check_status"
    assert charge.transitions["target_not_found"] == "flo.Failed"


def test_a_signal_step():
    wait = around(steps=FRAGMENTS["signal_step"]).steps["await_approval"].wait_for_signal

    assert wait == SignalWait(
        type="manager_approval", timeout_ms=86_400_000, on_timeout="OrderRejected"
    )


def test_a_retry_within_a_budget():
    assert around(start=FRAGMENTS["retry"]["start"]).start.retry == Retry(
        max_attempts=5,
        backoff=Backoff.EXPONENTIAL_JITTER,
        initial_delay_ms=500,
        max_delay_ms=30_000,
        within_ms=120_000,
    )


def test_a_poll():
    check = around(steps=FRAGMENTS["poll"]).steps["check_status"]

    assert check.poll == Poll(
        initial_delay_ms=2_000,
        max_attempts=30,
        backoff=Backoff.EXPONENTIAL,
        base_delay_ms=2_000,
        max_delay_ms=30_000,
    )
    assert check.transitions["timeout"] == "payment_timeout"


def test_a_plan():
    start = {"run": "@plan/payment", "transitions": _ending(None)}
    plan = around(start=start, plans=FRAGMENTS["plan"]).plans["payment"]

    assert [executor.priority for executor in plan.executors] == [100, 50]
    assert plan.executors[0].rate_limit == RateLimit(
        max_per_second=100, max_per_minute=5_000, max_per_hour=50_000
    )
    assert plan.cache.invalidate_on == ("payment.refunded", "customer.deleted")
    assert plan.errors.fatal == ("invalid_card", "fraud_detected", "insufficient_funds")


def test_an_interval():
    assert around(**FRAGMENTS["interval_schedule"]).schedule == Schedule(
        interval_ms=30_000, max_concurrent=1, input='{"mode": "incremental"}'
    )


def test_search_attributes():
    assert around(**FRAGMENTS["search_attributes"]).search_attributes == (
        SearchAttribute(name="customer_id", type=AttributeType.STRING, path="$.input.customer_id"),
        SearchAttribute(name="order_amount", type=AttributeType.NUMBER, path="$.input.amount"),
        SearchAttribute(name="created_at", type=AttributeType.TIMESTAMP, path="$.input.timestamp"),
    )


def test_a_child_of_a_certain_version():
    assert around(start=FRAGMENTS["child"]["start"]).start.run == Target(
        kind=TargetKind.WORKFLOW, name="payment-flow", version="2.0.0"
    )
