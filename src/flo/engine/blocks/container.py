"""What a namespace knows of blocks: registrations, locks, and the ledgers that are not closed."""

from sortedcontainers import SortedDict

from flo.engine.blocks.locks import LockTable
from flo.engine.blocks.records import BlockRecord, JobPlace, Ledger, LedgerEntry
from flo.model.blocks.ledger import EntryState
from flo.model.blocks.names import BlockReference, JobType
from flo.model.ids import RunId

NUMBER_MAX = 10**9


class BlockSpace:
    def __init__(self) -> None:
        self.known: SortedDict[tuple[str, str, tuple[int, int, int]], BlockRecord] = SortedDict()
        self.ledgers: dict[RunId, Ledger] = {}
        self.jobs: dict[RunId, JobPlace] = {}
        """The jobs that ledgers wait for."""
        self.locks = LockTable()

    def resolve(self, reference: BlockReference) -> BlockRecord | None:
        """The highest version that fits; the major number is always that of the reference."""
        (package, name), wanted = reference
        least, most = _range_of(wanted)
        fitting = self.known.irange((package, name, least), (package, name, most), reverse=True)
        key = next(fitting, None)
        return self.known[key] if key is not None else None

    def put_ledger(self, ledger: Ledger) -> None:
        """As it is now; the jobs that it waits for are found by their runs."""
        run_id = ledger.run_id
        self.ledgers[run_id] = ledger
        for job in ledger.acquiring:
            self.jobs[job] = JobPlace(run_id=run_id, job=JobType.ACQUIRE)
        for entry in ledger.entries:
            self.index(run_id, entry)

    def index(self, run_id: RunId, entry: LedgerEntry) -> None:
        number = entry.number
        if entry.outcome is None:
            self.jobs[entry.job] = JobPlace(run_id=run_id, job=JobType.EXECUTE, entry=number)
        if entry.rollback_job is not None and entry.state is EntryState.ROLLING_BACK:
            self.jobs[entry.rollback_job] = JobPlace(
                run_id=run_id, job=JobType.ROLLBACK, entry=number
            )


def _range_of(wanted: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The least and the highest version that begin so."""
    major, minor, patch = (*wanted, None, None)[:3]
    assert major is not None
    least = (major, minor or 0, patch or 0)
    most = (
        major,
        NUMBER_MAX if minor is None else minor,
        NUMBER_MAX if patch is None else patch,
    )
    return least, most
