"""Parallel branches and items: a step opens branches, and ends when enough of them have ended.

parallel ──▸ a branch for each of its own ──┐
forEach ──▸ branches for some items ────────┴──▸ one ends ──▸ enough? ──▸ close the rest, end it
              ▲                                                  │
              └───────────── the next items ◂────────────────────┘
"""

import msgspec
from msgspec.structs import replace

from flo.engine.workflows.advance.base import EVENTS_PER_ADVANCE_MAX, Advance
from flo.engine.workflows.advance.moves import (
    BeginItem,
    Call,
    Close,
    EndBranch,
    EndStep,
    EnterStep,
    Moves,
    OpenItems,
    SettleJoin,
    failure,
)
from flo.engine.workflows.advance.scope import (
    NOT_JSON,
    decoded_input,
    is_text,
    mapped,
    scope_of,
    too_large,
)
from flo.engine.workflows.events import BranchEnded, BranchOpened
from flo.engine.workflows.execution import (
    Items,
    branch_under,
    join_step,
    leaf_of,
    opener_of,
    parent_branch,
    step_at,
)
from flo.engine.workflows.records import Branch
from flo.model.workflows import BranchName, BranchPhase, StepName
from flo.workflow.mapping import compile_mapping
from flo.workflow.outcome import EXECUTION_FAILURE, FAILURE, SUCCESS, StepError
from flo.workflow.payload import value_of
from flo.workflow.steps import JOIN_ALL, ForEachStep, ParallelStep, Step, needed

ITEMS_OPEN_MAX = 1_000
"""So many items of a step are under way at a time, whatever its `concurrency` says."""

_encode = msgspec.json.encode


def begin_parallel(advance: Advance, branch: BranchName, now: Branch, step: ParallelStep) -> Moves:
    names = {name: branch_under(branch, now.step, name) for name in step.parallel.branches}
    return (
        advance.started(branch, replace(now, phase=BranchPhase.JOIN, items=len(names))),
        *(_opened(advance, child, name) for name, child in names.items()),
        *(EnterStep(child, name) for name, child in names.items()),
    )


def begin_for_each(advance: Advance, branch: BranchName, now: Branch, step: ForEachStep) -> Moves:
    # in a loop, the list may be another one each time
    advance.execution.items.pop((branch, now.step), None)
    items, most = _items(advance, branch, now.step, step).values, step.for_each.max_items
    joining = replace(now, phase=BranchPhase.JOIN, items=len(items or ()))
    started = advance.started(branch, joining)
    if items is None:
        problem = StepError(message=f"{step.for_each.items} is no list", code="items_invalid")
        return (started, EndStep(branch, FAILURE, b"", problem))
    if len(items) > most:
        text = f"{len(items)} items are more than max_items {most}"
        problem = StepError(message=text, code="too_many_items")
        return (started, EndStep(branch, FAILURE, b"", problem))
    if not items:
        return (started, EndStep(branch, SUCCESS, b"[]", None))
    return (started, OpenItems(branch, now.step))


def open_items(advance: Advance, move: OpenItems) -> Moves:
    """One item, and then the next one: the first may end at once, and decide the step."""
    branch, name = move
    execution = advance.execution
    join, step = execution.branches.get(branch), step_at(execution.definition, branch, name)
    if join is None or join.phase is not BranchPhase.JOIN or join.step != name:
        return ()  # the step has been decided meanwhile
    assert isinstance(step, ForEachStep)
    under_way = join.opened - join.succeeded - join.failed
    most = min(step.for_each.concurrency, ITEMS_OPEN_MAX)
    if execution.paused or join.opened >= join.items or under_way >= most:
        return ()
    if advance.event_count > EVENTS_PER_ADVANCE_MAX:
        return (failure("too much happens at once", "too_many_events"),)
    item = branch_under(branch, name, str(join.opened))
    now = Branch(step=name, phase=BranchPhase.BETWEEN, began_at_ms=advance.now_ms, visit=join.visit)
    return (_opened(advance, item, name), BeginItem(item, now), move)


def begin_item(advance: Advance, move: BeginItem) -> Moves:
    branch, now = move
    execution = advance.execution
    step = opener_of(execution.definition, branch)
    assert isinstance(step, ForEachStep)
    index = int(leaf_of(branch))
    values, decoded = _items(advance, parent_branch(branch), join_step(branch), step)
    item = values[index] if values is not None and index < len(values) else None
    mapping = step.for_each.input_mapping
    payload: bytes | StepError
    if mapping:
        scope = scope_of(execution, advance.now_ms, decoded)
        scope = scope._replace(item=item, item_index=index)
        payload = mapped(mapping, execution, advance.now_ms, scope)
    else:
        payload = _encode(item)
    if isinstance(payload, StepError):
        target = str(step.for_each.run)
        return (
            advance.not_made(branch, now, target, EXECUTION_FAILURE, payload),
            EndStep(branch, EXECUTION_FAILURE, b"", payload),
        )
    return (Call(branch, now, step.for_each.run, payload),)


def end_branch(advance: Advance, move: EndBranch) -> Moves:
    ended = BranchEnded(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=move.branch,
        succeeded=move.succeeded,
        output=move.output,
        at_ms=advance.now_ms,
    )
    return (ended, SettleJoin(parent_branch(move.branch), join_step(move.branch), move.error))


def settle_join(advance: Advance, move: SettleJoin) -> Moves:
    branch, name, error = move
    execution = advance.execution
    step, join = step_at(execution.definition, branch, name), execution.branches[branch]
    enough = needed(_join_rule(step), join.items)
    if join.succeeded < enough and join.failed <= join.items - enough:
        return (OpenItems(branch, name),) if isinstance(step, ForEachStep) else ()
    outcome = SUCCESS if join.succeeded >= enough else FAILURE
    execution.items.pop((branch, name), None)
    joined = _joined(execution.outputs, move, step, join)
    if isinstance(joined, StepError):
        error = joined
        outcome, joined = FAILURE, b""
    elif outcome == SUCCESS:
        error = None
    prefix = branch_under(branch, name, "")
    closed = [Close(other) for other in execution.branches if other.startswith(prefix)]
    return (*closed, EndStep(branch, outcome, joined, error))


def _opened(advance: Advance, branch: BranchName, step: StepName) -> BranchOpened:
    return BranchOpened(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        step=step,
        at_ms=advance.now_ms,
    )


def _items(advance: Advance, branch: BranchName, name: StepName, step: ForEachStep) -> Items:
    execution = advance.execution
    items = execution.items.get((branch, name))
    if items is None:
        decoded = decoded_input(execution)
        scope = scope_of(execution, advance.now_ms, decoded)
        found = compile_mapping(step.for_each.items).resolve(scope)
        items = Items(found if isinstance(found, list) else None, decoded)
        execution.items[branch, name] = items
    return items


def _joined(
    outputs: dict[BranchName, bytes], move: SettleJoin, step: Step | None, join: Branch
) -> bytes | StepError:
    """The outputs of the branches by name, or those of the items in order; text stays text."""
    names = step.parallel.branches if isinstance(step, ParallelStep) else None
    values: dict[str, object] = {}
    for leaf in names or map(str, range(join.items)):
        output = outputs.get(branch_under(move.branch, move.step, leaf), b"")
        values[leaf] = value = value_of(output)
        if isinstance(value, str) and not is_text(output):
            problem = f"the output of {leaf!r} is neither JSON nor text, so it cannot be joined"
            return StepError(message=problem, code=NOT_JSON, retryable=False)
    joined = _encode(values if names else list(values.values()))
    if (too_much := too_large("the output", joined)) is not None:
        return StepError(message=too_much, code="too_large")
    return joined


def _join_rule(step: Step | None) -> int:
    match step:
        case ParallelStep(parallel=parallel):
            return parallel.join
        case ForEachStep(for_each=each):
            return each.join
        case _:
            return JOIN_ALL
