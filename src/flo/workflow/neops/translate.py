"""A neops definition as the one that the engine executes.

    LABEL--when      its condition and assertions      go ─▸ …   skip ─▸ the next step
    LABEL--delay     its delay
    LABEL            the block, or the referenced workflow; plain retries are its own
    LABEL--check     after a failure: is it tried again?   ─▸ LABEL--retry ─▸ LABEL
    LABEL--more      after a success: is it repeated?      ─▸ LABEL--again ─▸ LABEL

Steps of an embedded workflow have the label of that before theirs: `outer-inner`. `start` decides
whether the whole workflow is run, and for which entities: with `executeOn`, as one child for each.
"""

from typing import Any, Final, NamedTuple

import msgspec

from flo.workflow.definition import Catchup, Definition, Schedule
from flo.workflow.jmes import compile_expression
from flo.workflow.neops.document import (
    BlockStep,
    CommonFields,
    CronEntry,
    EmbeddedStep,
    JmesCondition,
    ReferenceStep,
    RootWorkflow,
    WrittenStep,
    split_reference,
    workflow_name,
)
from flo.workflow.neops.templates import filled, literal_text, parameters_text, quoted
from flo.workflow.neops.values import (
    NESTED_PARAMETERS,
    ExpressionPlace,
    engine_name,
    expression_text,
)
from flo.workflow.retry import Backoff, Retry
from flo.workflow.steps import (
    ForEach,
    ForEachStep,
    RunStep,
    Sleep,
    SleepStep,
    Step,
    Target,
    TargetKind,
)

COMPLETED: Final = "flo.Completed"
FAILED: Final = "flo.Failed"
EACH: Final = "start--each"
ENTITIES_MAX: Final = 1_000
PARALLEL_MAX: Final = 10
"""So many entities at a time, if the workflow allows several."""


class Around(NamedTuple):
    """Where a step stands: its place for expressions, and where it leads."""

    prefix: str
    place: ExpressionPlace
    goal: str
    """After it."""
    failed: str
    """After it has failed."""


def translate(root: RootWorkflow) -> Definition:
    """The definition; raises ExpressionError for an expression that is none."""
    return _Translation(root).definition()


class _Translation:
    def __init__(self, root: RootWorkflow) -> None:
        self._root = root
        self._place = ExpressionPlace(defaults={**root.parameters, **root.raw_parameters})
        self._steps: dict[str, Step] = {}
        self._name = workflow_name(root.package, root.name)

    def definition(self) -> Definition:
        root = self._root
        around = Around("", self._place, COMPLETED, FAILED)
        first = self._chain(root.steps, around)
        if root.delay:
            first = self._sleep("start--delay", root.delay, first)
        self._steps[EACH] = self._each()
        return Definition(
            name=self._name,
            version=root.version,
            description=root.description or "",
            start=self._start(first),
            steps=self._steps,
            schedule=self._schedule(),
        )

    # ── the whole ──

    def _start(self, first: str) -> RunStep:
        cases = ["(type(steps.\"$input\".executeOn.ids) == 'array' && 'each')"]
        cases += _cases(self._root)
        transitions = {"each": EACH, "go": first, "skip": COMPLETED, "failure": FAILED}
        return _outcome("start", _first_of(cases, "'go'"), self._place, transitions)

    def _each(self) -> ForEachStep:
        root = self._root
        strategy = root.config.execution_strategy if root.config is not None else None
        several = strategy is not None and strategy.parallel is True
        entity = {"type": root.seed_entity, "id": "$.item"}
        given = {"parameters": "$.input.parameters", "entity": entity}
        return ForEachStep(
            for_each=ForEach(
                items="$.input.executeOn.ids",
                run=Target(kind=TargetKind.WORKFLOW, name=self._name, version=root.version),
                input_mapping=msgspec.json.encode(given).decode(),
                concurrency=PARALLEL_MAX if several else 1,
                max_items=ENTITIES_MAX,
            ),
            transitions={"success": COMPLETED, "failure": FAILED},
        )

    def _schedule(self) -> Schedule | None:
        enabled = [entry for entry in self._root.cron if entry.enabled]
        return _schedule_of(enabled[0]) if enabled else None

    # ── steps ──

    def _chain(self, steps: list[WrittenStep], around: Around) -> str:
        """Put steps behind each other, and return the name of the first."""
        goal = around.goal
        for step in reversed(steps):
            goal = self._step(step, around._replace(goal=goal))
        return goal

    def _step(self, step: WrittenStep, around: Around) -> str:
        name = engine_name(around.prefix + step.label)
        failed = around.goal if step.continue_on_error else around.failed
        after = self._repeated(step, name, around)
        failed = self._retried(step, name, around, failed)
        inner = around._replace(goal=after, failed=failed)
        match step:
            case BlockStep():
                first = self._block(step, name, inner)
            case ReferenceStep():
                first = self._reference(step, name, inner)
            case EmbeddedStep():
                first = self._embedded(step, name, inner)
        for suffix in ("again", "retry"):
            pause = self._steps.get(f"{name}--{suffix}")
            if pause is not None:
                self._steps[f"{name}--{suffix}"] = msgspec.structs.replace(
                    pause, transitions={"success": first}
                )
        if step.delay:
            first = self._sleep(f"{name}--delay", step.delay, first)
        return self._gate(step, name, around, first)

    def _block(self, step: BlockStep, name: str, around: Around) -> str:
        package, block, version = split_reference(step.function_block)
        target = Target(kind=TargetKind.BLOCK, name=f"{package}/{block}", version=version)
        mapping = parameters_text(step.parameters, step.raw_parameters, around.place)
        self._steps[name] = _run(step, target, mapping, around)
        return name

    def _reference(self, step: ReferenceStep, name: str, around: Around) -> str:
        package, workflow, version = split_reference(step.workflow)
        called = workflow_name(package, workflow)
        target = Target(kind=TargetKind.WORKFLOW, name=called, version=version)
        parameters = parameters_text(step.parameters, step.raw_parameters, around.place)
        mapping = f'{{"parameters": {parameters}, "entity": "$.input.entity"}}'
        self._steps[name] = _run(step, target, mapping, around)
        return name

    def _embedded(self, step: EmbeddedStep, name: str, around: Around) -> str:
        prefix = f"{name}-"
        outer, place = around.place, around.place
        place = ExpressionPlace(inside=[*place.inside, prefix], defaults=place.defaults)
        first = self._chain(step.steps, around._replace(prefix=prefix, place=place))
        given = {**step.parameters, **step.raw_parameters}
        if not given:
            return first
        parameters = parameters_text(step.parameters, step.raw_parameters, outer)
        mapping = f'{{"outcome": "go", "output": {parameters}}}'
        begin = prefix + NESTED_PARAMETERS
        target = Target(kind=TargetKind.OUTCOME, name="parameters")
        transitions = {"go": first, "failure": around.failed}
        self._steps[begin] = RunStep(run=target, input_mapping=mapping, transitions=transitions)
        return begin

    # ── around a step ──

    def _gate(self, step: CommonFields, name: str, around: Around, first: str) -> str:
        cases = _cases(step)
        if not cases:
            return first
        failed = around.goal if step.continue_on_error else around.failed
        transitions = {"go": first, "skip": around.goal, "failure": failed}
        gate = f"{name}--when"
        self._steps[gate] = _outcome("when", _first_of(cases, "'go'"), around.place, transitions)
        return gate

    def _repeated(self, step: CommonFields, name: str, around: Around) -> str:
        repeat = step.repeat_config
        if repeat is None:
            return around.goal
        self._sleep(f"{name}--again", repeat.delay, name)
        case = f"({_fewer(f'{name}--again', repeat.repeats)}{_and(repeat.condition)} && 'more')"
        transitions = {"more": f"{name}--again", "done": around.goal, "failure": around.failed}
        self._steps[f"{name}--more"] = _outcome(
            "more", _first_of([case], "'done'"), around.place, transitions
        )
        return f"{name}--more"

    def _retried(self, step: CommonFields, name: str, around: Around, failed: str) -> str:
        """Where a failure leads: to another attempt, if that is not a matter of the step alone."""
        retry = step.retry_config
        if retry is None or _is_plain(step):
            return failed
        self._sleep(f"{name}--retry", retry.delay, name)
        case = f"({_fewer(f'{name}--retry', retry.max_retries)}{_and(retry.condition)} && 'again')"
        stop = "'stop'"
        if not isinstance(step, EmbeddedStep):
            last = f"steps.{quoted(name)}"
            stop = f"{{outcome: 'stop', error: {last}.error, code: {last}.errorCode}}"
        transitions = {"again": f"{name}--retry", "stop": failed, "failure": failed}
        self._steps[f"{name}--check"] = _outcome(
            "retry", _first_of([case], stop), around.place, transitions
        )
        return f"{name}--check"

    def _sleep(self, name: str, seconds: float, goal: str) -> str:
        duration = Sleep(duration_ms=int(seconds * 1_000))
        self._steps[name] = SleepStep(sleep=duration, transitions={"success": goal})
        return name


def _is_plain(step: CommonFields) -> bool:
    """Whether the retries of a step are those of any other step."""
    retry = step.retry_config
    return retry is not None and retry.condition is None and not isinstance(step, EmbeddedStep)


def _run(step: CommonFields, target: Target, mapping: str, around: Around) -> RunStep:
    retry = step.retry_config
    delay_ms = int(retry.delay * 1_000) if retry is not None else 0
    return RunStep(
        run=target,
        input_mapping=mapping,
        retry=Retry(
            max_attempts=retry.max_retries + 1,
            backoff=Backoff.CONSTANT,
            initial_delay_ms=delay_ms,
            max_delay_ms=delay_ms,
        )
        if retry is not None and _is_plain(step)
        else None,
        transitions={"success": around.goal, "failure": around.failed, "timeout": around.failed},
    )


def _outcome(
    name: str, expression: str, place: ExpressionPlace, transitions: dict[str, str]
) -> RunStep:
    target = Target(kind=TargetKind.OUTCOME, name=name)
    text = expression_text(expression, place)
    return RunStep(run=target, input_mapping=text, transitions=transitions)


def _first_of(cases: list[str], otherwise: str) -> str:
    expression = " || ".join([*cases, otherwise])
    compile_expression(expression)
    return expression


def _cases(step: CommonFields) -> list[str]:
    """What keeps a step from being run, each as an expression that is its outcome."""
    cases = []
    if step.condition is not None:
        cases.append(f"(!({_checked(step.condition)}) && 'skip')")
    for condition in step.asserts:
        told = condition.description or f"the assertion {condition.jmes!r} does not hold"
        refused = {"outcome": "failure", "error": told, "code": "assertion_failed"}
        cases.append(f"(!({_checked(condition)}) && {literal_text(refused)})")
    return cases


def _checked(condition: JmesCondition) -> str:
    compile_expression(condition.jmes)
    return condition.jmes


def _and(condition: JmesCondition | None) -> str:
    return f" && ({_checked(condition)})" if condition is not None else ""


def _fewer(step: str, most: int) -> str:
    return f"!(steps.{quoted(step)}.visits >= `{most}`)"


def _schedule_of(entry: CronEntry) -> Schedule:
    tab = entry.crontab
    given: dict[str, Any] = {"parameters": filled(entry.parameters, ExpressionPlace())}
    return Schedule(
        cron=" ".join((tab.minute, tab.hour, tab.day_of_month, tab.month, tab.day_of_week)),
        timezone=tab.timezone,
        max_concurrent=PARALLEL_MAX if entry.concurrency else 1,
        input=msgspec.json.encode(given).decode(),
        catchup=Catchup.ONE,
    )
