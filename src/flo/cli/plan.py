"""flo plan ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import plain_command
from flo.cli.app.output import Columns, aligned, count_text, table, time_text
from flo.cli.app.parameters import Flag
from flo.model.plans import ExecutorView, GetPlan, PlanView, WindowView

UNITS = {1_000: "s", 60_000: "min", 3_600_000: "h"}


@click.group(cls=CommandGroup, examples=["flo plan status payment-processing charge-payment"])
def plan() -> None:
    """See how the executors of a plan are doing."""


def _text(view: PlanView) -> str:
    head = {
        "Plan": view.plan,
        "Workflow": f"{view.workflow} (version {view.version})",
        "Selection": view.selection,
        "Begun": count_text(view.begun, "time"),
        "Kept": count_text(view.cached, "result"),
    }
    return f"{aligned(head)}\n\n{table(_columns(view), view.executors)}"


def _columns(view: PlanView) -> Columns[ExecutorView]:
    return {
        "EXECUTOR": lambda executor: executor.name,
        "ACTION": lambda executor: executor.action,
        "PRIORITY": lambda executor: executor.priority,
        "BREAKER": lambda executor: _breaker(executor),
        "SCORE": lambda executor: f"{executor.score:.2f}",
        "SAMPLES": lambda executor: f"{executor.samples} / {view.min_samples}",
        "ANSWERED": lambda executor: _share(executor, executor.answered),
        "GOOD": lambda executor: _share(executor, executor.succeeded),
        "RATE": lambda executor: ", ".join(map(_used, executor.windows)),
        "FREE": lambda executor: _free(executor, view),
    }


def _breaker(executor: ExecutorView) -> str | None:
    match executor.breaker:
        case "none":
            return None
        case "open":
            return f"open until {time_text(executor.half_open_at_ms)}"
        case "closed" if executor.failures:
            return f"closed ({executor.failures} of {executor.failures_max} failures)"
        case phase:
            return phase


def _share(executor: ExecutorView, share: float) -> str | None:
    return f"{share:.0%}" if executor.samples else None


def _used(window: WindowView) -> str:
    return f"{window.used} of {window.limit}/{UNITS[window.length_ms]}"


def _free(executor: ExecutorView, view: PlanView) -> str | None:
    """When its rate limit lets it be called; nothing if it has none."""
    if not executor.windows:
        return None
    return "now" if executor.free_at_ms <= view.at_ms else time_text(executor.free_at_ms)


def _callable_now(view: PlanView) -> str:
    return "\n".join(one.name for one in view.executors if _is_callable(one, view))


def _is_callable(executor: ExecutorView, view: PlanView) -> bool:
    return executor.breaker != "open" and executor.free_at_ms <= view.at_ms


plan.add(
    plain_command(
        "status",
        GetPlan,
        "workflow",
        "plan",
        Flag("version", "-v", metavar="VERSION"),
        text=_text,
        raw=_callable_now,
        examples=[
            "flo plan status payment-processing charge-payment",
            "flo plan status payment-processing charge-payment --format json",
        ],
        aliases=["get"],
        more="""With too few SAMPLES a score says nothing but what the breaker does. With --format
        raw: the executors that may be called now.""",
    ),
)
