"""Checks of settings that contradict each other or have no effect."""

import msgspec

from flo.model.errors import Rejected
from flo.model.ids import check_namespace
from flo.workflow.check.findings import Findings
from flo.workflow.cron import parse_cron
from flo.workflow.definition import Definition, Schedule, Trigger
from flo.workflow.document.places import Path
from flo.workflow.graph import areas_of
from flo.workflow.mapping import compile_template
from flo.workflow.plan.plan import Plan, RateLimit, Selection
from flo.workflow.retry import Poll, Retry
from flo.workflow.steps import ForEachStep, ParallelStep, RunStep, SignalStep, SleepStep, Step


def check_settings(definition: Definition, findings: Findings) -> None:
    for area in areas_of(definition):
        for name, step in area.steps.items():
            _check_step(step, area.paths[name], findings)
    for name, plan in definition.plans.items():
        _check_plan(plan, ("plans", name), findings)
    if definition.schedule is not None:
        _check_schedule(definition.schedule, findings)
    if definition.trigger is not None:
        _check_trigger(definition.trigger, findings)


def _check_step(step: Step, path: Path, findings: Findings) -> None:
    match step:
        case RunStep():
            _check_retry(step.retry, (*path, "retry"), findings)
            _check_poll(step.poll, (*path, "poll"), findings)
            if step.rollback is not None:
                _check_retry(step.rollback.retry, (*path, "rollback", "retry"), findings)
        case ForEachStep():
            _check_retry(step.for_each.retry, (*path, "forEach", "retry"), findings)
            _check_join(step.for_each.join, step.for_each.max_items, (*path, "forEach"), findings)
        case ParallelStep():
            branches = len(step.parallel.branches)
            _check_join(step.parallel.join, branches, (*path, "parallel"), findings)
        case SignalStep() | SleepStep():
            pass


def _check_retry(retry: Retry | None, path: Path, findings: Findings) -> None:
    if retry is None:
        return
    first, most = retry.initial_delay_ms, retry.max_delay_ms
    if first > most:
        message = f"initial_delay_ms {first} is above max_delay_ms {most}"
        hint = f"set max_delay_ms to {first} or more"
        findings.error("E401", message, (*path, "initial_delay_ms"), hint=hint)
    elif retry.within_ms is not None and retry.within_ms < first and retry.max_attempts > 1:
        message = f"within_ms {retry.within_ms} ends before the first repetition at {first}"
        findings.warning("E401", message, (*path, "within_ms"))


def _check_poll(poll: Poll | None, path: Path, findings: Findings) -> None:
    if poll is not None and poll.base_delay_ms > poll.max_delay_ms:
        message = f"baseDelayMs {poll.base_delay_ms} is above maxDelayMs {poll.max_delay_ms}"
        hint = f"set maxDelayMs to {poll.base_delay_ms} or more"
        findings.error("E406", message, (*path, "baseDelayMs"), hint=hint)


def _check_join(join: int, all_of_them: int, path: Path, findings: Findings) -> None:
    if join > all_of_them:
        message = f"join {join} can never be reached by {all_of_them}"
        findings.error("E410", message, (*path, "join"))


def _check_plan(plan: Plan, path: Path, findings: Findings) -> None:
    for number, executor in enumerate(plan.executors):
        inner = (*path, "executors", f"[{number}]")
        _check_retry(executor.retry, (*inner, "retry"), findings)
        if executor.rate_limit == RateLimit():
            message = f"rate_limit of executor {executor.name!r} has no limit"
            hint = "set max_per_second, max_per_minute or max_per_hour"
            findings.warning("E403", message, (*inner, "rate_limit"), hint=hint)
    _check_health(plan, path, findings)
    if plan.cache is not None and not compile_template(plan.cache.key).paths:
        message = "the cache key is the same for every call"
        hint = 'name what the result depends on: "{input.customer_id}"'
        findings.warning("E404", message, (*path, "cache", "key"), hint=hint)
    if plan.errors is not None:
        both = [code for code in plan.errors.retryable if code in plan.errors.fatal]
        for code in both:
            message = f"error {code!r} is both retryable and fatal"
            findings.error("E501", message, (*path, "errors", "fatal"))


def _check_health(plan: Plan, path: Path, findings: Findings) -> None:
    weighted = plan.selection is Selection.HEALTH_WEIGHTED
    if weighted and plan.health is None:
        message = "selection health-weighted needs health"
        hint = "add health: {window_ms: 300000, decay: 0.9, min_samples: 10}"
        findings.error("E405", message, (*path, "selection"), hint=hint)
    if plan.health is not None and not weighted:
        message = f"health is not used by selection {plan.selection.value}"
        findings.warning("E405", message, (*path, "health"))


def _check_schedule(schedule: Schedule, findings: Findings) -> None:
    if schedule.cron is not None:
        try:
            parse_cron(schedule.cron)
        except Rejected as error:
            findings.error("E407", error.message, ("schedule", "cron"))
    try:
        parse_cron("* * * * *", schedule.timezone)
    except Rejected as error:
        findings.error("E407", error.message, ("schedule", "timezone"))
    try:
        msgspec.json.decode(schedule.input)
    except (msgspec.DecodeError, RecursionError) as error:
        findings.error("E407", f"expected the input as JSON: {error}", ("schedule", "input"))


def _check_trigger(trigger: Trigger, findings: Findings) -> None:
    if trigger.namespace is not None:
        try:
            check_namespace(trigger.namespace)
        except Rejected as error:
            findings.error("E408", error.message, ("trigger", "namespace"))
