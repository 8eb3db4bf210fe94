"""A neops definition as it is written: a root workflow and its steps, by neops' own fields.

    root ─▸ steps: functionBlock · workflow (embedded, with steps of its own) · workflowReference

Each step may have a condition, assertions, a delay, retries, repeats, and may be passed over when
it fails.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, dataclass_transform

import msgspec
from msgspec import Meta, field

if TYPE_CHECKING:

    @dataclass_transform(kw_only_default=True, field_specifiers=(field,))
    class _Written(msgspec.StructMeta):
        """Tells the type checker that fields are given by name."""
else:
    _Written = msgspec.StructMeta

LABEL_PATTERN: Final = r"^(?!parameters$)(?!context$)(?!steps$)[A-Za-z_]\w*$"
REFERENCE_PATTERN: Final = (
    r"^(?![.-])[\w.-]{1,100}/(?![.-])[\w.-]{1,100}:[0-9]{1,6}(\.[0-9]{1,6})?(\.[0-9]{1,6})?$"
)
STEPS_MAX: Final = 200
"""Steps of one list."""

Label: TypeAlias = Annotated[str, Meta(pattern=LABEL_PATTERN, max_length=100)]
Reference: TypeAlias = Annotated[str, Meta(pattern=REFERENCE_PATTERN)]
Named: TypeAlias = Annotated[str, Meta(pattern=r"^(?![.-])[\w.-]{1,100}$")]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=600)] | Annotated[float, Meta(ge=0, le=600)]
VersionNumber: TypeAlias = Annotated[int, Meta(ge=0, le=999_999)]
Description: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Entity: TypeAlias = Literal["device", "interface", "group", "client", "global"]


class WrittenPart(
    msgspec.Struct, metaclass=_Written, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    pass


class JmesCondition(WrittenPart):
    jmes: str
    type: Literal["jmes"] = "jmes"
    description: str = ""


class RetryConfig(WrittenPart):
    max_retries: Annotated[int, Meta(ge=1, le=100)]
    delay: Seconds = 0
    condition: JmesCondition | None = None


class RepeatConfig(WrittenPart):
    repeats: Annotated[int, Meta(ge=1, le=100)] = 100
    delay: Seconds = 0
    condition: JmesCondition | None = None


class AcquireClause(WrittenPart):
    """What a step, or the workflow, needs besides what its blocks ask for."""

    type: Literal["elastic", "context", "expansion", "reference"]
    entity: Entity
    description: str | None = None
    assert_not_empty: bool | None = None
    query: str | None = None
    limit: int | float | str | None = None
    filter: str | None = None
    expand_from_seed_entity: bool | None = None
    label: Label | None = None


class CommonFields(WrittenPart):
    label: Label
    description: Description | None = None
    condition: JmesCondition | None = None
    asserts: list[JmesCondition] = field(default_factory=list, name="assert")
    acquire: list[AcquireClause] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    raw_parameters: dict[str, Any] = field(default_factory=dict)
    run_on: Entity | None = None
    delay: Seconds = 0
    retry_config: RetryConfig | None = None
    repeat_config: RepeatConfig | None = None
    continue_on_error: bool = False


class BlockStep(CommonFields, tag_field="type", tag="functionBlock", kw_only=True):
    function_block: Reference


class ReferenceStep(CommonFields, tag_field="type", tag="workflowReference", kw_only=True):
    workflow: Reference
    strategy: Literal["embed", "dispatch"]


class ExecutionStrategy(WrittenPart):
    parallel: bool | None = None


class WorkflowConfig(WrittenPart):
    execution_strategy: ExecutionStrategy | None = None


class EmbeddedStep(CommonFields, tag_field="type", tag="workflow", kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    steps: Annotated[
        "list[BlockStep | ReferenceStep | EmbeddedStep]", Meta(min_length=1, max_length=STEPS_MAX)
    ]
    config: WorkflowConfig | None = None


WrittenStep: TypeAlias = BlockStep | ReferenceStep | EmbeddedStep


class Crontab(WrittenPart):
    second: str = "0"
    minute: str = "*"
    hour: str = "*"
    day_of_month: str = "*"
    month: str = "*"
    day_of_week: str = "*"
    timezone: str = "UTC"


class CronEntry(WrittenPart):
    title: str
    crontab: Crontab
    description: str = ""
    query: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    concurrency: bool = False
    enabled: bool = True
    condition: JmesCondition | None = None


class RootWorkflow(CommonFields, kw_only=True):
    name: Named
    package: Named
    major_version: VersionNumber
    minor_version: VersionNumber
    patch_version: VersionNumber
    seed_entity: Entity
    type: Literal["workflow"]
    steps: Annotated[list[WrittenStep], Meta(min_length=1, max_length=STEPS_MAX)]
    config: WorkflowConfig | None = None
    cron: list[CronEntry] = field(default_factory=list)
    hide_for_execution: bool = False
    parameter_schema: dict[str, Any] | None = None
    schema: str | None = field(default=None, name="$schema")

    @property
    def version(self) -> str:
        return f"{self.major_version}.{self.minor_version}.{self.patch_version}"

    @property
    def id(self) -> str:
        """`package/name:x.y.z`."""
        return f"{self.package}/{self.name}:{self.version}"


def workflow_name(package: str, name: str) -> str:
    """What the workflow is called here, where a name has no slash."""
    return f"{package}@{name}"


def split_reference(reference: str) -> tuple[str, str, str]:
    """The package, the name, and the version or the beginning of one."""
    path, _, version = reference.rpartition(":")
    package, _, name = path.partition("/")
    return package, name, version


def highest_of(versions: Iterable[str], wanted: str) -> str | None:
    """The highest version that begins so: `1` is the highest 1.x.y, never one of another major."""
    beginning = wanted.split(".")
    fitting = [one for one in versions if one.split(".")[: len(beginning)] == beginning]
    return max(fitting, key=lambda one: [int(number) for number in one.split(".")], default=None)


def identity_of(workflow: str) -> tuple[str, str] | None:
    """The package and the name of a workflow that is called so here; None if it is not neops'."""
    package, at, name = workflow.partition("@")
    return (package, name) if at and re.fullmatch(r"[\w.-]+", package) else None
