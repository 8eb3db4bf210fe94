"""What messages about blocks need from the archive: jobs that have ended, closed ledgers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flo.engine.blocks.folds import LEDGER_KIND, LEDGER_NUMBER
from flo.engine.blocks.records import Ledger
from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.runs.lookups import RunLookup
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.model.base import Message
from flo.model.blocks.jobs import GetJob
from flo.model.blocks.ledger import GetLedger
from flo.model.blocks.names import JOB_PREFIX, parse_job_id
from flo.model.ids import RunId, parse_run_id
from flo.model.storage.archive import ArchiveAddress

_decode = msgspec.msgpack.Decoder(Ledger).decode


class LedgerLookup(RowLookup[Ledger], frozen=True):
    """The ledger of this run, which is closed if there ever was one."""

    archive_name: str
    run_id: RunId

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(LEDGER_KIND, self.archive_name, self.run_id, LEDGER_NUMBER)

    def decode(self, body: bytes) -> Ledger:
        return _decode(body)


def run_of_job(job_id: str) -> RunId | None:
    """The run of a job: that of an attempt, or the run itself if its id was given."""
    parsed = parse_job_id(job_id)
    if parsed is not None:
        return parsed[0]
    return job_id if job_id.startswith(JOB_PREFIX) else None


def known_job(space: Space, run_id: RunId, context: Context) -> Run | None:
    """The run that a job is, live or ended."""
    lookup = _lookup_of(space, run_id)
    return space.runs.get(run_id) or (context.found.get(lookup) if lookup is not None else None)


def known_ledger(space: Space, run_id: RunId, context: Context) -> Ledger | None:
    """The ledger of a run, open or closed."""
    known = space.blocks.ledgers.get(run_id)
    return known or context.found.get(LedgerLookup(space.archive_name, run_id))


def _lookup_of(space: Space, run_id: RunId) -> RunLookup | None:
    address = parse_run_id(run_id)
    return RunLookup(space.archive_name, *address) if address is not None else None


def _for_job(state: State, query: GetJob, context: Context) -> Sequence[Lookup[Any]]:
    space, run_id = state.space(query.namespace), run_of_job(query.job_id)
    if run_id is None or run_id in space.runs:
        return ()
    lookup = _lookup_of(space, run_id)
    return (lookup,) if lookup is not None else ()


def _for_ledger(state: State, query: GetLedger, context: Context) -> Sequence[Lookup[Any]]:
    space = state.space(query.namespace)
    if query.run_id in space.blocks.ledgers:
        return ()
    return (LedgerLookup(space.archive_name, query.run_id),)


LOOKUPS: Mapping[type[Message], LookupRule] = {GetJob: _for_job, GetLedger: _for_ledger}
