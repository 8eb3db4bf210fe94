"""A workflow as its document defines it, in frozen structs.

    Definition
    ├── start, steps      RunStep · SignalStep · SleepStep · ParallelStep · ForEachStep
    │     ├── transitions     outcome → step or terminal
    │     ├── retry, poll     when to try again, when to ask again
    │     └── rollback        what compensates the step if the workflow run fails
    ├── terminals         named endings
    ├── plans             Plan → Executor, with breaker, rate limit, health, cache, fallback
    ├── schedule, trigger what starts workflow runs by itself
    ├── concurrency       how many workflow runs may live at a time, for each key
    ├── limits            how much one workflow run may do
    └── search_attributes, output, idempotency

A field is named as the document writes it in snake_case, and the document may write it in camelCase
too; `Meta` holds its bounds and its sentence in the reference. The reader, the writer, the JSON
Schema and the reference are all derived from these types (document/fields.py).

Steps are in steps.py, retries and polls in retry.py, plans in plan/plan.py.
"""

from enum import StrEnum
from typing import Annotated, Final

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
    TemplateText,
)
from flo.workflow.limits import Limits
from flo.workflow.plan.plan import Plan
from flo.workflow.steps import Step

START: Final = "start"
"""The name of the start step in histories and paths; `_start` means the same."""
START_ALIAS: Final = "_start"
STEPS_MAX: Final = 1_000


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


BUILT_IN_TERMINALS: Final[dict[str, TerminalKind]] = {
    "flo.Completed": TerminalKind.COMPLETED,
    "flo.Failed": TerminalKind.FAILED,
    "flo.Cancelled": TerminalKind.CANCELLED,
    "flo.TimedOut": TerminalKind.TIMED_OUT,
}


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
    subject: Annotated[
        TemplateText, Meta(description="Whom scheduled runs are about, as `{input.customer_id}`.")
    ] = ""


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
    subject: Annotated[
        TemplateText, Meta(description="Whom triggered runs are about, as `{input.customer_id}`.")
    ] = ""


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
        Idempotency,
        Meta(
            description="Whether a start must bring an idempotency key; one that it brings is "
            "always honoured."
        ),
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
    limits: Annotated[
        Limits | None, Meta(description="How much one run may do; otherwise what the server says.")
    ] = None
    action_wait_ms: Annotated[
        Duration,
        Meta(
            description="How long a step, or an item, waits for its action to be registered; "
            "otherwise it ends with `target_not_found` at once."
        ),
    ] = 0

    def ending_of(self, goal: str) -> TerminalKind | None:
        """The status of the terminal of this name; None if it is no terminal."""
        terminal = self.terminals.get(goal)
        return terminal.status if terminal is not None else BUILT_IN_TERMINALS.get(goal)

    def step_named(self, name: str) -> Step | None:
        """A step outside of branches; `_start` is the start step too."""
        return self.start if name in (START, START_ALIAS) else self.steps.get(name)
