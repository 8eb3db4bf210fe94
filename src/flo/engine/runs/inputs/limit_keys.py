"""The limit keys of runs whose inputs are in the store: read from there when limits change."""

from collections.abc import Iterable, Sequence

from flo.engine.actions.records import Action
from flo.engine.context import Context
from flo.engine.lookup import Lookup
from flo.engine.runs.inputs.spill import input_address
from flo.engine.runs.limits import counted_by, key_from, limit_key_of
from flo.engine.runs.records import Run
from flo.engine.state import Space
from flo.model.actions import ActionLimits
from flo.model.errors import Corrupt
from flo.model.ids import ActionName
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import StoredPayload
from flo.model.storage.store import Store


class LimitKeyLookup(Lookup[str | None], frozen=True):
    """What a template says for the input of a run; None if the store does not have it."""

    address: ArchiveAddress
    template: str

    async def fetch(self, store: Store) -> str | None:
        body = await store.payloads.find(self.address)
        return key_from(self.template, body) if body is not None else None


def rekeyed(space: Space, action: Action, context: Context) -> list[tuple[int, str | None]]:
    """The live runs of an action that these settings count by another key than the ones before."""
    live = _counted_anew(space, action.name, action.limits)
    keys = ((run, found_limit_key(space, action, run, context)) for run in live)
    return sorted((run.number, key) for run, key in keys if key != run.limit_key)


def found_limit_key(space: Space, action: Action, run: Run, context: Context) -> str | None:
    """The key of a run under the limits of an action, wherever its input is."""
    if not isinstance(run.input, StoredPayload):
        return limit_key_of(action, run.input)
    template = counted_by(action.limits)
    if template is None:
        return None
    key = context.found.get(LimitKeyLookup(input_address(space, run), template))
    if key is None:
        raise Corrupt(f"the input of run {run.run_id!r} is missing in the store")
    return key


def lookups_of_live(
    space: Space, name: ActionName, limits: ActionLimits | None
) -> Sequence[LimitKeyLookup]:
    """What to look up before an action is registered with these limits."""
    return lookups_of_runs(space, limits, _counted_anew(space, name, limits))


def lookups_of_runs(
    space: Space, limits: ActionLimits | None, runs: Iterable[Run]
) -> Sequence[LimitKeyLookup]:
    """The keys of these runs under these limits, as far as their inputs are in the store."""
    template = counted_by(limits)
    if template is None:
        return ()
    return [
        LimitKeyLookup(input_address(space, run), template)
        for run in runs
        if isinstance(run.input, StoredPayload)
    ]


def _counted_anew(space: Space, name: ActionName, limits: ActionLimits | None) -> Iterable[Run]:
    """The live runs of an action, if these limits count them by another template."""
    known = space.actions.get(name) or space.deleted.get(name)
    if known is None or counted_by(known.limits) == counted_by(limits):
        return ()
    return (run for run in space.runs.values() if run.action == name)
