"""Branches and items: a step opens walks of its own, and ends when enough of them have ended.

parallel ──▸ a walk for every branch ──┐
forEach ──▸ walks for some items ──────┴──▸ one ends ──▸ enough? ──▸ close the rest, end the step
              ▲                                             │
              └───────── the next items ◂───────────────────┘
"""

import msgspec
from msgspec.structs import replace

from flo.engine.runs.limits import value_of
from flo.engine.workflows.advance.carrier import Stepper
from flo.engine.workflows.advance.draft import EVENTS_PER_ADVANCE_MAX, too_large
from flo.engine.workflows.advance.ends import close_under, fail
from flo.engine.workflows.advance.scope import decoded_input, mapped, scope_of
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
from flo.workflow.definition import JOIN_ALL, ForEachStep, ParallelStep, Step, needed
from flo.workflow.mapping import compile_mapping
from flo.workflow.outcome import FAILURE, SUCCESS

BRANCHES_MAX = 1_000

_encode = msgspec.json.encode


class Joins:
    """The steps of one run that have branches or items, while it is carried on."""

    def __init__(self, carrier: Stepper) -> None:
        self._carrier = carrier
        self._execution = carrier.execution
        self._draft = carrier.draft
        self._opening: set[BranchName] = set()
        """The walks whose items are being opened."""

    def open_branches(self, branch: BranchName, step: StepName, names: list[str]) -> None:
        for name in names:
            join = self._execution.branches.get(branch)
            if join is None or join.phase is not BranchPhase.JOIN or join.step != step:
                return  # it has been decided already
            child = branch_under(branch, step, name)
            self._open(child, name)
            self._draft.onward.append((child, name))

    def begin_items(self, branch: BranchName, step: ForEachStep, now: Branch) -> None:
        self._execution.items.pop((branch, now.step), None)  # another turn of a loop, another list
        items = self._items(branch, now.step, step).values
        self._draft.start(branch, replace(now, phase=BranchPhase.JOIN, items=len(items or ())))
        if items is None:
            problem = f"{step.for_each.items} is no list"
            self._carrier.end_step(branch, FAILURE, b"", problem)
        elif len(items) > step.for_each.max_items:
            problem = f"{len(items)} items are more than max_items {step.for_each.max_items}"
            self._carrier.end_step(branch, FAILURE, b"", problem)
        elif not items:
            self._carrier.end_step(branch, SUCCESS, b"[]", None)
        else:
            self.open_items(branch, now.step, step)

    def open_items(self, branch: BranchName, name: StepName, step: ForEachStep) -> None:
        """As many as may be under way at a time."""
        if branch in self._opening or self._execution.paused:
            return
        self._opening.add(branch)
        self._open_each(branch, name, step)
        self._opening.remove(branch)

    def begin_item(self, branch: BranchName, now: Branch) -> None:
        step = opener_of(self._execution.definition, branch)
        assert isinstance(step, ForEachStep)
        index = int(leaf_of(branch))
        values, decoded = self._items(parent_branch(branch), join_step(branch), step)
        item = values[index] if values is not None and index < len(values) else None
        mapping = step.for_each.input_mapping
        if mapping:
            scope = scope_of(self._execution, self._draft.now_ms, decoded)
            payload = mapped(mapping, scope._replace(item=item, item_index=index))
        else:
            payload = _encode(item)
        self._carrier.call(branch, now, step.for_each.run, payload)

    def end_branch(self, branch: BranchName, succeeded: bool, output: bytes) -> None:
        """A branch or an item has ended; perhaps its join has, too."""
        parent, name = parent_branch(branch), join_step(branch)
        self._draft.emit(
            BranchEnded(
                namespace=self._draft.namespace,
                run_id=self._draft.run_id,
                branch=branch,
                succeeded=succeeded,
                output=output,
                at_ms=self._draft.now_ms,
            )
        )
        step = step_at(self._execution.definition, parent, name)
        join = self._execution.branches[parent]
        enough = needed(_join_rule(step), join.items)
        if join.succeeded >= enough or join.failed > join.items - enough:
            outcome = SUCCESS if join.succeeded >= enough else FAILURE
            self._execution.items.pop((parent, name), None)
            close_under(self._carrier, parent, name)
            joined = self._joined(parent, name, step, join)
            problem = too_large("the output", joined)
            if problem is not None:
                outcome, joined = FAILURE, b""
            self._carrier.end_step(parent, outcome, joined, problem)
        elif isinstance(step, ForEachStep):
            self.open_items(parent, name, step)

    def _open_each(self, branch: BranchName, name: StepName, step: ForEachStep) -> None:
        while True:
            join = self._execution.branches.get(branch)
            if join is None or join.phase is not BranchPhase.JOIN or join.step != name:
                return
            under_way = join.opened - join.succeeded - join.failed
            most = min(step.for_each.concurrency, BRANCHES_MAX)
            if join.opened >= join.items or under_way >= most:
                return
            if len(self._draft.own) > EVENTS_PER_ADVANCE_MAX:
                fail(self._carrier, "too much happens at once")
                return
            item = branch_under(branch, name, str(join.opened))
            self._open(item, name)
            now_ms = self._draft.now_ms
            self.begin_item(item, Branch(step=name, phase=BranchPhase.BETWEEN, began_at_ms=now_ms))

    def _open(self, branch: BranchName, step: StepName) -> None:
        self._draft.emit(
            BranchOpened(
                namespace=self._draft.namespace,
                run_id=self._draft.run_id,
                branch=branch,
                step=step,
                at_ms=self._draft.now_ms,
            )
        )

    def _items(self, branch: BranchName, name: StepName, step: ForEachStep) -> Items:
        items = self._execution.items.get((branch, name))
        if items is None:
            decoded = decoded_input(self._execution)
            scope = scope_of(self._execution, self._draft.now_ms, decoded)
            found = compile_mapping(step.for_each.items).resolve(scope)
            items = Items(found if isinstance(found, list) else None, decoded)
            self._execution.items[branch, name] = items
        return items

    def _joined(self, parent: BranchName, name: StepName, step: Step | None, join: Branch) -> bytes:
        """The outputs of the branches by name, or those of the items in order."""
        outputs = self._execution.outputs
        if isinstance(step, ParallelStep):
            named = {
                own_name: value_of(outputs.get(branch_under(parent, name, own_name), b""))
                for own_name in step.parallel.branches
            }
            return _encode(named)
        return _encode(
            [
                value_of(outputs.get(branch_under(parent, name, str(index)), b""))
                for index in range(join.items)
            ]
        )


def _join_rule(step: Step | None) -> int:
    match step:
        case ParallelStep(parallel=parallel):
            return parallel.join
        case ForEachStep(for_each=each):
            return each.join
        case _:
            return JOIN_ALL
