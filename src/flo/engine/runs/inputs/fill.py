"""Replies with the inputs of runs; large ones are in the store, and are filled in later."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from flo.engine.decision import FoundPayloads, Unfilled
from flo.engine.runs.inputs.spill import input_address
from flo.engine.runs.records import Run
from flo.engine.state import Space
from flo.model.ids import RunId
from flo.model.runs import Assigned, Claim, Fail, RunPage, RunView, Task
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import InputRecord, StoredPayload

INPUT_LOST_CODE = "input_lost"


def bytes_in_memory(payload: InputRecord) -> bytes:
    """The input of a run; nothing if it is yet to be filled in."""
    return b"" if isinstance(payload, StoredPayload) else payload


def stored_inputs(space: Space, runs: Sequence[Run]) -> dict[RunId, ArchiveAddress]:
    """The runs whose inputs are in the store, and where."""
    return {
        run.run_id: input_address(space, run)
        for run in runs
        if isinstance(run.input, StoredPayload)
    }


def assigned(command: Claim, tasks: list[Task], stored: Mapping[RunId, ArchiveAddress]) -> Unfilled:
    """What a claim brings that wants inputs from the store.

    A run whose input is lost fails, and the worker never hears of it.
    """

    def fill(found: FoundPayloads) -> Assigned:
        return Assigned(tasks=[whole for task in tasks if (whole := _whole(task, stored, found))])

    def amends(lost: Sequence[ArchiveAddress]) -> Sequence[Fail]:
        return [
            Fail(
                run_id=task.task_id,
                worker_id=command.worker_id,
                namespace=command.namespace,
                attempt=task.attempt,
                error="the input of the run cannot be read from the store",
                code=INPUT_LOST_CODE,
                retry=True,
            )
            for task in tasks
            if stored.get(task.task_id) in lost
        ]

    return Unfilled(wants=tuple(stored.values()), fill=fill, amends=amends)


def run_shown(view: RunView, stored: Mapping[RunId, ArchiveAddress]) -> RunView | Unfilled:
    if not stored:
        return view
    return Unfilled(wants=tuple(stored.values()), fill=partial(_filled_view, view, stored))


def page_shown(page: RunPage, stored: Mapping[RunId, ArchiveAddress]) -> RunPage | Unfilled:
    if not stored:
        return page

    def fill(found: FoundPayloads) -> RunPage:
        return replace(page, items=[_filled_view(view, stored, found) for view in page.items])

    return Unfilled(wants=tuple(stored.values()), fill=fill)


def _filled_view(
    view: RunView, stored: Mapping[RunId, ArchiveAddress], found: FoundPayloads
) -> RunView:
    address = stored.get(view.run_id)
    return replace(view, input=found[address]) if address is not None else view


def _whole(task: Task, stored: Mapping[RunId, ArchiveAddress], found: FoundPayloads) -> Task | None:
    address = stored.get(task.task_id)
    if address is None:
        return task
    return replace(task, payload=found[address]) if address in found else None
