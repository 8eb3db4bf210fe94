"""The steps of a workflow: what each of them runs or waits for, and where its outcomes lead.

Texts that hold paths (`$.input.amount`) stay texts here; `mapping.py` compiles them.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, field

from flo.model.base import Record
from flo.workflow.field_types import (
    ITEMS_MAX,
    Count,
    Duration,
    JsonText,
    Name,
    PathText,
    PositiveDuration,
)
from flo.workflow.retry import Poll, Retry

JOIN_ALL: Final = 0
JOIN_ANY: Final = 1
BRANCHES_MAX: Final = 256
TRANSITIONS_MAX: Final = 32


class TargetKind(StrEnum):
    """What a target invokes; the value is its prefix in the document."""

    ACTION = "@actions/"
    PLAN = "@plan/"
    WORKFLOW = "@workflow/"
    PIPELINE = "@pipelines/"
    BLOCK = "@blocks/"
    OUTCOME = "@outcome/"
    """Nothing is run: its input says what the outcome is. Translations use it, no document does."""


JoinCount: TypeAlias = Annotated[int, Meta(ge=0, le=ITEMS_MAX, extra={"kind": "join"})]
"""`all` (JOIN_ALL), `any` (JOIN_ANY) or how many must succeed."""
Transitions: TypeAlias = Annotated[
    dict[str, str],
    Meta(
        description="Outcome → the step or terminal that comes next.",
        extra={"kind": "transitions"},
    ),
]


class Target(Record):
    """What a step runs: an action, a plan of the same document, another workflow, a pipeline whose
    graph is stored under this name, or a function block.
    """

    kind: TargetKind
    name: str
    version: str | None = None
    """Of a workflow: exactly this one. None is the latest at the moment of the start. Of a
    block: the highest that begins so."""

    def __str__(self) -> str:
        return f"{self.kind.value}{self.name}" + (f":{self.version}" if self.version else "")


class RollbackWhen(StrEnum):
    """Which steps a rollback undoes."""

    SUCCEEDED = "succeeded"
    ATTEMPTED = "attempted"
    """Also those of which nobody knows whether they have had their effect."""


class Rollback(Record):
    """What undoes a step that has completed, when its workflow run ends failed or cancelled.

    Rollbacks run one after the other, last completed step first. With `when: attempted` a step is
    also undone if an attempt at it ended without a report: its time ran out, its worker was lost or
    left, or it was cancelled while a worker had it. It may have had its effect, or none.

    ```yaml
    reserve:
      run: "@actions/reserve"
      rollback: "@actions/release"        # short: it is given the output of the step it undoes
    charge:
      run: "@actions/charge"
      rollback:
        run: "@actions/refund"
        when: attempted                   # succeeded | attempted
        inputMapping: {order_id: $.input.order_id}
        retry: {max_attempts: 10}
    ```
    """

    run: Annotated[Target, Meta(description="`@actions/name` or `@workflow/name`.")]
    input_mapping: Annotated[
        JsonText | None,
        Meta(description="Its input; without it, the output of the step that is undone."),
    ] = None
    retry: Annotated[Retry | None, Meta(description="When a failed attempt is repeated.")] = None
    when: Annotated[
        RollbackWhen,
        Meta(description="Whether a step is undone only if it succeeded, or if it may have, too."),
    ] = RollbackWhen.SUCCEEDED


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
        Target,
        Meta(
            description="`@actions/name`, `@plan/name`, `@pipelines/name`, "
            "`@blocks/package/name:version` or `@workflow/name[:version]`."
        ),
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
    """A small graph that runs beside others.

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
    """Runs several branches at the same time.

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


def needed(join: int, all_of_them: int) -> int:
    """How many of the branches or items have to succeed."""
    return all_of_them if join == JOIN_ALL else join
