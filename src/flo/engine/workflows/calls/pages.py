"""Pages of the calls of a workflow execution, live or ended, over the parts that are filed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flo.engine.context import Context
from flo.engine.state import Space, State
from flo.engine.workflows.calls.log import Outputs
from flo.engine.workflows.lookups import CALLS_PER_PART_MAX, calls_part, ended_workflow, page_start
from flo.engine.workflows.records import CallParts, CallRecord, Signal, WorkflowRun
from flo.engine.workflows.rules import not_found
from flo.model.executions.steps import CallView, GetSteps, SignalView, StepsPage
from flo.model.ids import parse_run_id
from flo.model.workflows import RUN_PREFIX

PAGE_LENGTH_MAX = 2 * 1024 * 1024
"""So many bytes of payloads are in one page, but for a single larger one."""


class _Tail(NamedTuple):
    """What is not filed: the end of what there is."""

    run: WorkflowRun
    parts: int
    """How many are filed."""
    calls: CallParts
    under_way: Sequence[CallRecord]
    outputs: Outputs


def get_steps(state: State, query: GetSteps, context: Context) -> StepsPage:
    space = state.space(query.namespace)
    tail = _tail(space, query, context)
    part, skipped = page_start(query)
    is_last = part >= tail.parts
    found = tail.calls if is_last else calls_part(space, query.run_id, part, context)
    ahead = [*found.calls, *tail.under_way][skipped:] if is_last else found.calls[skipped:]
    views = [
        _call_view(tail, call, is_under_way=index >= len(found.calls))
        for index, call in enumerate(ahead[: query.limit], skipped)
    ]
    shown = _within_length(views)
    cursor = None
    if len(shown) < len(ahead):
        cursor = _cursor(part, skipped + len(shown))
    elif not is_last:
        cursor = _cursor(part + 1, 0)
    signals = [_signal_view(signal) for signal in found.signals] if not skipped else []
    return StepsPage(items=shown, signals=signals, cursor=cursor)


def _tail(space: Space, query: GetSteps, context: Context) -> _Tail:
    execution = space.executions.get(query.run_id)
    if execution is not None:
        calls = execution.calls
        outputs = Outputs(execution.results, execution.item_outputs())
        under_way = list(calls.under_way.values())
        return _Tail(execution.run, execution.history_parts, calls.parts(), under_way, outputs)
    record = ended_workflow(space, query.run_id, context)
    if record is None:
        raise not_found(query.run_id)
    outputs = Outputs(record.results)
    return _Tail(record.run, record.history_parts, record.calls, (), outputs)


def _call_view(tail: _Tail, call: CallRecord, *, is_under_way: bool) -> CallView:
    started_at_ms = tail.run.created_at_ms + call.began_ms
    address = parse_run_id(call.run_id) if call.run_id is not None else None
    action = address[0] if address is not None and address[0] != RUN_PREFIX else None
    return CallView(
        branch=call.branch,
        step=call.step,
        visit=call.visit,
        attempt=call.attempt,
        run_id=call.run_id,
        target=action or call.target or None,
        started_at_ms=started_at_ms,
        ended_at_ms=None if is_under_way else started_at_ms + call.took_ms,
        took_ms=None if is_under_way else call.took_ms,
        outcome=call.outcome,
        error=call.error,
        error_code=call.error_code,
        input_digest=call.digest.hex() or None,
        output=None if is_under_way else tail.outputs.of(call),
    )


def _signal_view(signal: Signal) -> SignalView:
    return SignalView(
        type=signal.type, at_ms=signal.at_ms, payload=signal.payload, actor=signal.actor
    )


def _within_length(views: Iterable[CallView]) -> list[CallView]:
    """As many as one reply may carry, and at least one."""
    fitting: list[CallView] = []
    length = 0
    for view in views:
        length += len(view.output or b"")
        if fitting and length > PAGE_LENGTH_MAX:
            break
        fitting.append(view)
    return fitting


def _cursor(part: int, skipped: int) -> str:
    return str(part * CALLS_PER_PART_MAX + skipped)
