"""Large inputs go to the store: when they do, and when the store lets go of them.

queued      the event is split: the bytes go to the store, in the same append
ended       they stay, as long as the archive has the run: trimming takes both
revived     they stay: the run is live again
purged, or gone with its namespace while it is live    the store lets go of them
"""

from collections.abc import Iterable

from msgspec.structs import replace

from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs.events import RunPurged, RunQueued
from flo.engine.runs.records import Run, address_in_archive
from flo.engine.state import Space, State
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import LargePayload, StoredPayload, stored_payload


def spill_input(
    state: State, event: RunQueued, bytes_max: int
) -> tuple[RunQueued, LargePayload] | None:
    """The event without an input that is too long, and the input; None if it is not."""
    body = event.run.input
    assert isinstance(body, bytes)
    if len(body) <= bytes_max:
        return None
    address = input_address(state.spaces[event.namespace], event.run)
    spilled = replace(event, run=replace(event.run, input=stored_payload(body)))
    return spilled, LargePayload(address, body)


def input_purged(state: State, event: RunPurged) -> Iterable[ArchiveAddress]:
    archive_name = state.spaces[event.namespace].archive_name
    return (address_in_archive(archive_name, event.action, event.number),)


def inputs_deleted(state: State, event: NamespaceDeleted) -> Iterable[ArchiveAddress]:
    """Those of live runs; the archive keeps what has ended, until it is trimmed."""
    space = state.spaces[event.name]
    runs = space.runs.values()
    return [input_address(space, run) for run in runs if isinstance(run.input, StoredPayload)]


def input_address(space: Space, run: Run) -> ArchiveAddress:
    """Where the store has the input of a run, if it is a large one."""
    return address_in_archive(space.archive_name, run.action, run.number)
