"""A plan as its document defines it: its executors and how they are chosen."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from flo.model.base import Record
from flo.workflow.field_types import (
    COUNT_MAX,
    Count,
    Duration,
    JsonText,
    Name,
    PositiveDuration,
    TemplateText,
)
from flo.workflow.retry import Retry
from flo.workflow.steps import Target


class Selection(StrEnum):
    STATIC_ORDER = "static-order"
    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    HEALTH_WEIGHTED = "health-weighted"


class TrackingMode(StrEnum):
    SYNC = "sync"
    ASYNC = "async"


class FallbackCondition(StrEnum):
    EXHAUSTED = "exhausted"
    ANY_ERROR = "any_error"


class Breaker(Record):
    """When an executor is left out because it keeps failing."""

    failure_threshold: Annotated[
        Count, Meta(description="Consecutive failures that open the breaker.")
    ] = 5
    cooldown_ms: Annotated[
        Duration, Meta(description="How long it stays open before probes are let through.")
    ] = 30_000
    half_open_max_calls: Annotated[Count, Meta(description="Probes while half open.")] = 3


class RateLimit(Record):
    """How many calls an executor is given; each limit is optional."""

    max_per_second: Annotated[Count | None, Meta(description="In a second.")] = None
    max_per_minute: Annotated[Count | None, Meta(description="In a minute.")] = None
    max_per_hour: Annotated[Count | None, Meta(description="In an hour.")] = None


class Tracking(Record):
    """Whether the outcome of an executor comes with its run or is reported later."""

    mode: Annotated[TrackingMode, Meta(description="When the outcome is known.")] = (
        TrackingMode.SYNC
    )
    timeout_ms: Annotated[
        PositiveDuration | None, Meta(description="How long an outcome may take to arrive.")
    ] = None


class Executor(Record):
    """One way to carry out a plan."""

    name: Annotated[Name, Meta(description="Its name in histories.")]
    action: Annotated[Target, Meta(description="`@actions/name`.", extra={"aliases": ("run",)})]
    priority: Annotated[
        Annotated[int, Meta(ge=-COUNT_MAX, le=COUNT_MAX)], Meta(description="Higher comes first.")
    ] = 100
    retry: Annotated[
        Retry | None, Meta(description="Repetitions on this executor; otherwise none.")
    ] = None
    breaker: Annotated[Breaker | None, Meta(description="Its breaker; otherwise none.")] = None
    rate_limit: Annotated[RateLimit | None, Meta(description="Its limits; otherwise none.")] = None
    tracking: Annotated[Tracking, Meta(description="How its outcome arrives.")] = Tracking()


class Health(Record):
    """How the health of executors is measured for `selection: health-weighted`."""

    window_ms: Annotated[
        PositiveDuration,
        Meta(description="The rolling window.", extra={"aliases": ("window",)}),
    ] = 300_000
    decay: Annotated[
        Annotated[float, Meta(gt=0, le=1)], Meta(description="How much older samples still count.")
    ] = 0.9
    min_samples: Annotated[
        Count, Meta(description="Samples before health counts; until then, priority does.")
    ] = 10


class Cache(Record):
    """Successful results of a plan that may be used again."""

    key: Annotated[
        TemplateText,
        Meta(
            description="Results with equal keys are the same result.",
            extra={"aliases": ("key_template",)},
        ),
    ]
    ttl_ms: Annotated[PositiveDuration, Meta(description="How long a result is good.")] = 300_000
    invalidate_on: Annotated[
        tuple[str, ...], Meta(description="Events that throw the results away.")
    ] = ()


class Fallback(Record):
    """The result of a plan when its executors have none."""

    value: Annotated[JsonText, Meta(description="The output.")]
    condition: Annotated[
        FallbackCondition,
        Meta(description="After every executor has failed, or at the first error."),
    ] = FallbackCondition.EXHAUSTED


class ErrorClasses(Record):
    """Which error codes deserve another attempt on the same executor, and which never do."""

    retryable: Annotated[tuple[str, ...], Meta(description="Tried again on the executor.")] = ()
    fatal: Annotated[tuple[str, ...], Meta(description="On to the next executor at once.")] = ()


class Plan(Record):
    """Several executors for the same work: which comes first, and what if it fails."""

    executors: Annotated[tuple[Executor, ...], Meta(description="At least one.")]
    selection: Annotated[Selection, Meta(description="Which executor comes first.")] = (
        Selection.STATIC_ORDER
    )
    health: Annotated[
        Health | None, Meta(description="Asked for by `selection: health-weighted`.")
    ] = None
    cache: Annotated[Cache | None, Meta(description="Results used again; otherwise none.")] = None
    fallback: Annotated[Fallback | None, Meta(description="A last resort; otherwise none.")] = None
    errors: Annotated[
        ErrorClasses | None,
        Meta(
            description="Classes of errors; otherwise all are retryable.",
            extra={"aliases": ("classify_error",)},
        ),
    ] = None
