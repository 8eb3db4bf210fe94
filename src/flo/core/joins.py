"""Branches and items: a step opens walks of its own, and ends when enough of them have ended.

parallel ──▸ a walk for every branch ──┐
forEach ──▸ walks for some items ──────┴──▸ one ends ──▸ enough? ──▸ close the rest, end the step
              ▲                                             │
              └───────── the next items ◂───────────────────┘
"""

import msgspec
from msgspec.structs import replace

from flo.core.carrier import Carrier
from flo.core.course import Items, branch_of, join_step, opener_of, parent_walk, step_at, walk_under
from flo.core.draft import EVENTS_PER_ADVANCE_MAX, too_large
from flo.core.limits import value_of
from flo.core.scope import decoded_input, mapped, scope_of
from flo.core.workflow_ends import close_under, fail
from flo.model.workflow_facts import Phase, StepName, Walk, WalkEnded, WalkName, WalkOpened
from flo.workflow.definition import JOIN_ALL, ForEachStep, ParallelStep, Step, needed
from flo.workflow.mapping import compile_mapping
from flo.workflow.outcome import FAILURE, SUCCESS

WALKS_MAX = 1_000

_encode = msgspec.json.encode


class Joins:
    """The steps of one run that have branches or items, while it is carried on."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._course = carrier.course
        self._draft = carrier.draft
        self._opening: set[WalkName] = set()
        """The walks whose items are being opened."""

    def open_branches(self, walk: WalkName, step: StepName, names: list[str]) -> None:
        for name in names:
            join = self._course.walks.get(walk)
            if join is None or join.phase is not Phase.JOIN or join.step != step:
                return  # it has been decided already
            branch = walk_under(walk, step, name)
            self._open(branch, name)
            self._draft.onward.append((branch, name))

    def begin_items(self, walk: WalkName, step: ForEachStep, now: Walk) -> None:
        self._course.items.pop((walk, now.step), None)  # another turn of a loop, another list
        items = self._items(walk, now.step, step).values
        self._draft.start(walk, replace(now, phase=Phase.JOIN, items=len(items or ())))
        if items is None:
            problem = f"{step.for_each.items} is no list"
            self._carrier.end_step(walk, FAILURE, b"", problem)
        elif len(items) > step.for_each.max_items:
            problem = f"{len(items)} items are more than max_items {step.for_each.max_items}"
            self._carrier.end_step(walk, FAILURE, b"", problem)
        elif not items:
            self._carrier.end_step(walk, SUCCESS, b"[]", None)
        else:
            self.open_items(walk, now.step, step)

    def open_items(self, walk: WalkName, name: StepName, step: ForEachStep) -> None:
        """As many as may be under way at a time."""
        if walk in self._opening or self._course.paused:
            return
        self._opening.add(walk)
        self._open_each(walk, name, step)
        self._opening.remove(walk)

    def begin_item(self, walk: WalkName, now: Walk) -> None:
        step = opener_of(self._course.definition, walk)
        assert isinstance(step, ForEachStep)
        index = int(branch_of(walk))
        values, decoded = self._items(parent_walk(walk), join_step(walk), step)
        item = values[index] if values is not None and index < len(values) else None
        mapping = step.for_each.input_mapping
        if mapping:
            scope = scope_of(self._course, self._draft.now_ms, decoded)
            payload = mapped(mapping, scope._replace(item=item, item_index=index))
        else:
            payload = _encode(item)
        self._carrier.call(walk, now, step.for_each.run, payload)

    def end_walk(self, walk: WalkName, succeeded: bool, output: bytes) -> None:
        """A branch or an item has ended; perhaps its join has, too."""
        parent, name = parent_walk(walk), join_step(walk)
        self._draft.emit(
            WalkEnded(
                namespace=self._draft.namespace,
                run_id=self._draft.run_id,
                walk=walk,
                succeeded=succeeded,
                output=output,
                at_ms=self._draft.now_ms,
            )
        )
        step = step_at(self._course.definition, parent, name)
        join = self._course.walks[parent]
        enough = needed(_join_rule(step), join.items)
        if join.succeeded >= enough or join.failed > join.items - enough:
            outcome = SUCCESS if join.succeeded >= enough else FAILURE
            self._course.items.pop((parent, name), None)
            close_under(self._carrier, parent, name)
            joined = self._joined(parent, name, step, join)
            problem = too_large("the output", joined)
            if problem is not None:
                outcome, joined = FAILURE, b""
            self._carrier.end_step(parent, outcome, joined, problem)
        elif isinstance(step, ForEachStep):
            self.open_items(parent, name, step)

    def _open_each(self, walk: WalkName, name: StepName, step: ForEachStep) -> None:
        while True:
            join = self._course.walks.get(walk)
            if join is None or join.phase is not Phase.JOIN or join.step != name:
                return
            under_way = join.opened - join.succeeded - join.failed
            most = min(step.for_each.concurrency, WALKS_MAX)
            if join.opened >= join.items or under_way >= most:
                return
            if len(self._draft.own) > EVENTS_PER_ADVANCE_MAX:
                fail(self._carrier, "too much happens at once")
                return
            item = walk_under(walk, name, str(join.opened))
            self._open(item, name)
            now_ms = self._draft.now_ms
            self.begin_item(item, Walk(step=name, phase=Phase.BETWEEN, began_at_ms=now_ms))

    def _open(self, walk: WalkName, step: StepName) -> None:
        self._draft.emit(
            WalkOpened(
                namespace=self._draft.namespace,
                run_id=self._draft.run_id,
                walk=walk,
                step=step,
                at_ms=self._draft.now_ms,
            )
        )

    def _items(self, walk: WalkName, name: StepName, step: ForEachStep) -> Items:
        items = self._course.items.get((walk, name))
        if items is None:
            decoded = decoded_input(self._course)
            scope = scope_of(self._course, self._draft.now_ms, decoded)
            found = compile_mapping(step.for_each.items).resolve(scope)
            items = Items(found if isinstance(found, list) else None, decoded)
            self._course.items[walk, name] = items
        return items

    def _joined(self, parent: WalkName, name: StepName, step: Step | None, join: Walk) -> bytes:
        """The outputs of the branches by name, or those of the items in order."""
        outputs = self._course.outputs
        if isinstance(step, ParallelStep):
            named = {
                branch: value_of(outputs.get(walk_under(parent, name, branch), b""))
                for branch in step.parallel.branches
            }
            return _encode(named)
        return _encode(
            [
                value_of(outputs.get(walk_under(parent, name, str(index)), b""))
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
