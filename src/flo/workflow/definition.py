"""Definition, Step, Plan: the parsed document as frozen structs.

    Definition
    ├── start, steps      RunStep · SignalStep · SleepStep · ParallelStep · ForEachStep
    │     ├── transitions     outcome → step or terminal
    │     ├── retry, poll     when to try again, when to ask again
    │     └── rollback        what undoes the step if the workflow run ends badly
    ├── terminals         named endings
    ├── plans             Plan → Executor, with breaker, rate limit, health, cache, fallback
    ├── schedule, trigger what starts workflow runs by itself
    ├── concurrency       how many workflow runs may live at a time, for each key
    └── search_attributes, output, idempotency

A field is named as the document writes it in snake_case, and the document may write it in camelCase
too; `Meta` holds its bounds and the sentence that stands in the reference. The reader, the writer,
the JSON Schema and the reference are all derived from these types (see `fields.py`).

Texts that hold paths (`$.input.amount`) stay texts here; `mapping.py` compiles them.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, field

from flo.model.base import Record
from flo.model.ids import DURATION_MS_MAX

START: Final = "start"
"""The name of the start step in histories and paths; `_start` means the same."""
START_ALIAS: Final = "_start"

JOIN_ALL: Final = 0
JOIN_ANY: Final = 1

ATTEMPTS_MAX: Final = 1_000
ITEMS_MAX: Final = 10_000
COUNT_MAX: Final = 1_000_000
BRANCHES_MAX: Final = 256
STEPS_MAX: Final = 1_000
TRANSITIONS_MAX: Final = 32
NAME_LENGTH_MAX: Final = 256


class Idempotency(StrEnum):
    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TerminalKind(StrEnum):
    """The statuses in which a workflow run can end."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class Backoff(StrEnum):
    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_JITTER = "exponential_jitter"


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


class Catchup(StrEnum):
    """What happens to the ticks that were missed while no server ran."""

    ALL = "all"
    ONE = "one"
    NONE = "none"


class TriggerMode(StrEnum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    KEY_SHARED = "key_shared"


class AttributeType(StrEnum):
    STRING = "string"
    NUMBER = "number"
    TIMESTAMP = "timestamp"


class TargetKind(StrEnum):
    """What a target invokes; the value is its prefix in the document."""

    ACTION = "@actions/"
    PLAN = "@plan/"
    WORKFLOW = "@workflow/"


BUILT_IN_TERMINALS: Final[dict[str, TerminalKind]] = {
    "flo.Completed": TerminalKind.COMPLETED,
    "flo.Failed": TerminalKind.FAILED,
    "flo.Cancelled": TerminalKind.CANCELLED,
    "flo.TimedOut": TerminalKind.TIMED_OUT,
}

# ── kinds of text and number ──────────────────────────────────────────────────────────────────────

Duration: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MS_MAX, extra={"kind": "duration"})]
"""Milliseconds; the document may also write `30s`, `5m`, `1h30m`, `7d`."""

PositiveDuration: TypeAlias = Annotated[
    int, Meta(ge=1, le=DURATION_MS_MAX, extra={"kind": "duration"})
]
Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]

JsonText: TypeAlias = Annotated[str, Meta(extra={"kind": "json"})]
"""JSON as text. The document may write it as text, or as plain YAML, which becomes such a text."""

PathText: TypeAlias = Annotated[str, Meta(extra={"kind": "path"})]
"""A path such as `$.input.customers`."""

TemplateText: TypeAlias = Annotated[str, Meta(extra={"kind": "template"})]
"""Text with places to fill: `charge:{input.customer_id}`."""

JoinCount: TypeAlias = Annotated[int, Meta(ge=0, le=ITEMS_MAX, extra={"kind": "join"})]
"""`all` (JOIN_ALL), `any` (JOIN_ANY) or how many must succeed."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]

Transitions: TypeAlias = Annotated[
    dict[str, str],
    Meta(
        description="Outcome → the step or terminal that comes next.",
        extra={"kind": "transitions"},
    ),
]


class Target(Record):
    """What a step runs: an action, a plan of the same document, or another workflow."""

    kind: TargetKind
    name: str
    version: str | None = None
    """Of a workflow: exactly this one. None is the latest at the moment of the start."""

    def __str__(self) -> str:
        return f"{self.kind.value}{self.name}" + (f":{self.version}" if self.version else "")


# ── trying again, undoing ─────────────────────────────────────────────────────────────────────────


class Retry(Record):
    """When a failed attempt is repeated.

    ```yaml
    retry: {max_attempts: 5, backoff: exponential_jitter, initial_delay_ms: 500, within_ms: 120000}
    ```
    """

    max_attempts: Annotated[
        Attempts,
        Meta(description="Attempts in all, the first included.", extra={"aliases": ("max",)}),
    ] = 3
    backoff: Annotated[Backoff, Meta(description="How the delay grows.")] = Backoff.EXPONENTIAL
    initial_delay_ms: Annotated[
        Duration, Meta(description="The delay before the first repetition; 0 is at once.")
    ] = 1_000
    max_delay_ms: Annotated[Duration, Meta(description="No delay is longer than this.")] = 30_000
    within_ms: Annotated[
        PositiveDuration | None,
        Meta(description="No attempt begins later than this after the first one began."),
    ] = None


class Poll(Record):
    """How often a step whose outcome is `pending` is run again until the outcome is another.

    When `max_attempts` polls are used up, the outcome is `timeout`.
    """

    initial_delay_ms: Annotated[Duration, Meta(description="The wait before the first poll.")] = 0
    max_attempts: Annotated[Attempts, Meta(description="Polls at most.")] = 10
    backoff: Annotated[Backoff, Meta(description="How the wait grows.")] = Backoff.EXPONENTIAL
    base_delay_ms: Annotated[
        Duration, Meta(description="The wait between polls that the backoff starts from.")
    ] = 1_000
    max_delay_ms: Annotated[Duration, Meta(description="No wait is longer than this.")] = 60_000


class Rollback(Record):
    """What undoes a step that has completed, when its workflow run ends failed or cancelled.

    Rollbacks run one after the other, last completed step first.

    ```yaml
    reserve:
      run: "@actions/reserve"
      rollback: "@actions/release"        # short: it is given the output of the step it undoes
    charge:
      run: "@actions/charge"
      rollback:
        run: "@actions/refund"
        inputMapping: {payment_id: $.steps.charge.output.id}
        retry: {max_attempts: 10}
    ```
    """

    run: Annotated[Target, Meta(description="`@actions/name` or `@workflow/name`.")]
    input_mapping: Annotated[
        JsonText | None,
        Meta(description="Its input; without it, the output of the step that is undone."),
    ] = None
    retry: Annotated[Retry | None, Meta(description="When a failed attempt is repeated.")] = None


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────


class RunStep(Record, tag="run"):
    """Runs a target and follows the transition of its outcome.

    ```yaml
    charge:
      run: "@actions/charge-payment"
      inputMapping: '{"amount": "$.input.amount"}'
      retry: {max_attempts: 3}
      transitions: {success: ship, failure: flo.Failed}
    ```
    """

    run: Annotated[
        Target, Meta(description="`@actions/name`, `@plan/name` or `@workflow/name[:version]`.")
    ]
    input_mapping: Annotated[
        JsonText | None,
        Meta(description="The input of the target; without it, the input of the workflow run."),
    ] = None
    retry: Annotated[
        Retry | None,
        Meta(description="When `failure` and `execution_failure` are tried again; otherwise not."),
    ] = None
    poll: Annotated[
        Poll | None, Meta(description="How `pending` is asked again; otherwise it is an outcome.")
    ] = None
    rollback: Annotated[
        Rollback | None, Meta(description="What undoes the step if the run ends badly.")
    ] = None
    transitions: Transitions = field(default_factory=dict)


class SignalWait(Record):
    """The signal to wait for, and for how long."""

    type: Annotated[Name, Meta(description="The type of the signal.")]
    timeout_ms: Annotated[
        PositiveDuration | None, Meta(description="How long to wait; otherwise for ever.")
    ] = None
    on_timeout: Annotated[
        str | None,
        Meta(
            description="The step or terminal that follows the timeout; otherwise the run ends "
            "`timed_out`.",
            extra={"kind": "goal"},
        ),
    ] = None


class SignalStep(Record, tag="signal"):
    """Waits for a signal and follows `success`; the payload is the output of the step.

    ```yaml
    await_approval:
      waitForSignal: {type: approval, timeoutMs: 3600000, onTimeout: flo.Failed}
      transitions: {success: fulfill}
    ```
    """

    wait_for_signal: Annotated[
        SignalWait,
        Meta(description="The signal to wait for."),
    ]
    transitions: Transitions = field(default_factory=dict)


class Sleep(Record):
    """How long to sleep. Exactly one of the three is set; a single value is `duration_ms`."""

    duration_ms: Annotated[Duration | None, Meta(description="So long.")] = None
    duration_from: Annotated[
        PathText | None, Meta(description="So many milliseconds, read from a path.")
    ] = None
    until: Annotated[
        PathText | None,
        Meta(description="Until this moment, read from a path: epoch milliseconds or RFC 3339."),
    ] = None


class SleepStep(Record, tag="sleep"):
    """Sleeps, then follows `success`.

    ```yaml
    cool_down:
      sleep: 5m                             # or milliseconds: 300000
      transitions: {success: retry_charge}
    wait_for_the_date:
      sleep: {until: $.input.due_at}        # or {duration_from: $.input.delay_ms}
      transitions: {success: remind}
    ```
    """

    sleep: Annotated[Sleep, Meta(description="How long, or until when.")]
    transitions: Transitions = field(default_factory=dict)


class ForEach(Record):
    """A target that is run once for each item of a list."""

    items: Annotated[PathText, Meta(description="The path of the list.")]
    run: Annotated[Target, Meta(description="`@actions/name` or `@workflow/name[:version]`.")]
    input_mapping: Annotated[
        JsonText | None,
        Meta(description="The input, with `$.item` and `$.index`; without it, the item itself."),
    ] = None
    retry: Annotated[
        Retry | None, Meta(description="When the failed attempt of an item is repeated.")
    ] = None
    concurrency: Annotated[Count, Meta(description="At most so many items at a time.")] = 10
    max_items: Annotated[
        Annotated[int, Meta(ge=1, le=ITEMS_MAX)],
        Meta(description="A longer list is the outcome `failure`, before anything is run."),
    ] = 1_000
    join: Annotated[
        JoinCount, Meta(description="`all`, `any`, or how many items must succeed.")
    ] = JOIN_ALL


class ForEachStep(Record, tag="for_each"):
    """Runs a target for each item of a list, a bounded number at a time.

    The output is the list of outputs in the order of the items. The outcome is `success` as soon as
    enough items have succeeded (`join`), and `failure` as soon as they no longer can.

    ```yaml
    notify_all:
      forEach:
        items: $.input.customers
        run: "@actions/notify"
        inputMapping: {customer: $.item, position: $.index}
        concurrency: 5
      transitions: {success: flo.Completed, failure: flo.Failed}
    ```
    """

    for_each: Annotated[ForEach, Meta(description="The list and the target.")]
    transitions: Transitions = field(default_factory=dict)


FlatStep: TypeAlias = RunStep | SignalStep | SleepStep | ForEachStep
"""What a branch of a parallel step is made of."""


class ParallelBranch(Record):
    """A small graph that is walked beside others.

    Its first step bears the name of the branch. A branch ends at a terminal: one with the status
    `completed` means that the branch succeeded, any other that it failed.
    """

    start: FlatStep
    steps: dict[str, FlatStep] = field(default_factory=dict)


class Parallel(Record):
    """The branches, and how many of them must succeed."""

    branches: Annotated[
        dict[str, ParallelBranch],
        Meta(description="Name → a target, a step, or a graph.", extra={"kind": "branches"}),
    ]
    join: Annotated[
        JoinCount, Meta(description="`all`, `any`, or how many branches must succeed.")
    ] = JOIN_ALL


class ParallelStep(Record, tag="parallel"):
    """Walks several branches at the same time.

    The outcome is `success` as soon as enough branches have succeeded (`join`), and `failure` as
    soon as they no longer can; branches that are still under way are then cancelled. The output is
    an object: branch → the output of the last step of the branch. Steps of branches share the names
    of all steps, so `$.steps.email.output` is found from everywhere.

    ```yaml
    prepare:
      parallel:
        join: all                                   # all | any | 2
        branches:
          email: "@actions/send-email"              # a target
          stock:                                    # a step; without transitions, success completes
            run: "@actions/reserve-stock"           # the branch and anything else fails it
            retry: {max_attempts: 3}
          payment:                                  # a graph
            start:
              run: "@actions/authorize"
              transitions: {success: capture, failure: flo.Failed}
            steps:
              capture:
                run: "@actions/capture"
                transitions: {success: flo.Completed, failure: flo.Failed}
      transitions: {success: ship, failure: flo.Failed}
    ```
    """

    parallel: Annotated[Parallel, Meta(description="The branches and how they join.")]
    transitions: Transitions = field(default_factory=dict)


Step: TypeAlias = RunStep | SignalStep | SleepStep | ForEachStep | ParallelStep

# ── plans ─────────────────────────────────────────────────────────────────────────────────────────


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


# ── the document ──────────────────────────────────────────────────────────────────────────────────


class Terminal(Record):
    """A named ending."""

    status: Annotated[TerminalKind, Meta(description="The status of a run that ends here.")] = (
        TerminalKind.FAILED
    )


class Schedule(Record):
    """Starts workflow runs at certain times. Exactly one of cron and interval is set."""

    cron: Annotated[
        str | None, Meta(description="Five fields: minute, hour, day, month, weekday.")
    ] = None
    interval_ms: Annotated[
        PositiveDuration | None,
        Meta(description="Milliseconds between starts.", extra={"key": "interval"}),
    ] = None
    timezone: Annotated[str, Meta(description="The time zone of `cron`.")] = "UTC"
    max_concurrent: Annotated[
        Count, Meta(description="No start while so many scheduled runs live.")
    ] = 1
    input: Annotated[JsonText, Meta(description="The input of scheduled runs.")] = "{}"
    paused: Annotated[bool, Meta(description="Whether it begins paused.")] = False
    catchup: Annotated[Catchup, Meta(description="What happens to ticks that were missed.")] = (
        Catchup.ONE
    )


class Trigger(Record):
    """Starts a workflow run for each event of a stream, or for each batch of events."""

    stream: Annotated[Name, Meta(description="The stream.")]
    namespace: Annotated[
        str | None, Meta(description="Of the stream; otherwise that of the workflow.")
    ] = None
    consumer_group: Annotated[
        str | None, Meta(description="The consumer group; otherwise `wf-` and the workflow's name.")
    ] = None
    mode: Annotated[TriggerMode, Meta(description="How consumers share the stream.")] = (
        TriggerMode.SHARED
    )
    batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=ITEMS_MAX)],
        Meta(description="Events for each run: 1 is the event itself, more is a list."),
    ] = 1
    batch_timeout_ms: Annotated[
        Duration, Meta(description="A batch that is not full starts a run after this.")
    ] = 5_000
    max_concurrent: Annotated[
        Count, Meta(description="No start while so many triggered runs live.")
    ] = 1_000


class Concurrency(Record):
    """How many workflow runs may be under way at a time; the others wait in line.

    ```yaml
    concurrency: {key: "{input.customer_id}", max: 1}     # one at a time for each customer
    ```

    ```yaml
    concurrency: 20                                       # twenty in all
    ```
    """

    max: Annotated[Count, Meta(description="Runs at a time.")]
    key: Annotated[
        TemplateText, Meta(description="Counted for each value of this; otherwise for all runs.")
    ] = ""


class SearchAttribute(Record):
    """A field of the input by which workflow runs are found."""

    name: Annotated[Name, Meta(description="Its name in `--where`.")]
    path: Annotated[
        PathText,
        Meta(description="Where it stands: `input.x` or `$.input.x`.", extra={"key": "from"}),
    ]
    type: Annotated[AttributeType, Meta(description="Its type.")] = AttributeType.STRING


class Definition(Record):
    """A workflow as its document defines it."""

    name: Annotated[Name, Meta(description="The name of the workflow.")]
    version: Annotated[Name, Meta(description="Any text; a text never changes its meaning.")]
    start: Annotated[Step, Meta(description="The first step.")]
    steps: Annotated[dict[str, Step], Meta(description="Name → step.")] = field(
        default_factory=dict
    )
    description: Annotated[str, Meta(description="For people.")] = ""
    idempotency: Annotated[
        Idempotency, Meta(description="Whether a start may, or must, bring an idempotency key.")
    ] = Idempotency.NONE
    terminals: Annotated[dict[str, Terminal], Meta(description="Name → status.")] = field(
        default_factory=dict
    )
    plans: Annotated[dict[str, Plan], Meta(description="Name → plan.")] = field(
        default_factory=dict
    )
    schedule: Annotated[Schedule | None, Meta(description="Starts at certain times.")] = None
    trigger: Annotated[Trigger | None, Meta(description="Starts for events of a stream.")] = None
    concurrency: Annotated[
        Concurrency | None, Meta(description="Runs at a time; otherwise as many as come.")
    ] = None
    search_attributes: Annotated[
        tuple[SearchAttribute, ...],
        Meta(description="Fields of the input to search by."),
    ] = ()
    output: Annotated[
        JsonText | None,
        Meta(description="The output of the run; otherwise that of its last step."),
    ] = None

    def ending_of(self, goal: str) -> TerminalKind | None:
        """The status of the terminal of this name; None if it is no terminal."""
        terminal = self.terminals.get(goal)
        return terminal.status if terminal is not None else BUILT_IN_TERMINALS.get(goal)

    def step_named(self, name: str) -> Step | None:
        """A step outside of branches; `_start` is the start step too."""
        return self.start if name in (START, START_ALIAS) else self.steps.get(name)


def needed(join: int, all_of_them: int) -> int:
    """How many of the branches or items have to succeed."""
    return all_of_them if join == JOIN_ALL else join
