"""Blocks: register and look at them, their jobs, the locks of runs, and what runs left undone."""

from collections.abc import Sequence

from flo.client.noun import Noun
from flo.model.blocks.blocks import (
    BlockDeclaration,
    BlockPage,
    BlocksRegistered,
    BlockView,
    DeleteBlock,
    GetBlock,
    ListBlocks,
    RegisterBlocks,
)
from flo.model.blocks.jobs import GetJob, JobPage, JobView, ListJobs
from flo.model.blocks.ledger import (
    GetLedger,
    LedgerChanged,
    LedgerView,
    ResolveEntries,
    RollbackAgain,
)
from flo.model.blocks.locks import ListLocks, LockPage, ReleaseLock
from flo.model.blocks.names import JobType
from flo.model.ids import LIST_LIMIT_DEFAULT, RunId, WorkerId


class Blocks(Noun):
    async def register(
        self, blocks: Sequence[BlockDeclaration], worker_id: WorkerId | None = None
    ) -> BlocksRegistered:
        """Register blocks, all or none of them; what is there already changes nothing."""
        return await self._call(RegisterBlocks(blocks=[*blocks], worker_id=worker_id))

    async def list(self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None) -> BlockPage:
        return await self._call(ListBlocks(limit=limit, cursor=cursor))

    async def get(self, block: str) -> BlockView:
        """A block, as `package/name:1.2.3`; of `package/name:1` the highest version."""
        return await self._call(GetBlock(block=block))

    async def delete(self, block: str) -> None:
        """Forget a version of a block; its jobs go on to their end."""
        await self._call(DeleteBlock(block=block))

    async def jobs(
        self,
        *,
        block: str | None = None,
        workflow_run_id: RunId | None = None,
        job: JobType | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
    ) -> JobPage:
        """The jobs that have not ended, the oldest first."""
        query = ListJobs(
            block=block, workflow_run_id=workflow_run_id, job=job, limit=limit, cursor=cursor
        )
        return await self._call(query)

    async def job(self, job_id: str) -> JobView:
        """A job: where it is, what it was given, what came of it."""
        return await self._call(GetJob(job_id=job_id))

    async def locks(
        self, prefix: str = "", limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> LockPage:
        """The locks that somebody holds or waits for."""
        return await self._call(ListLocks(prefix=prefix, limit=limit, cursor=cursor))

    async def release_lock(self, key: str, reason: str) -> None:
        """Release a lock that was kept because its run left undone what it did."""
        await self._call(ReleaseLock(key=key, reason=reason))

    async def ledger(self, run_id: RunId) -> LedgerView:
        """What the blocks of a workflow run have done, and what of it was undone."""
        return await self._call(GetLedger(run_id=run_id))

    async def roll_back_again(
        self, run_id: RunId, entries: Sequence[int] | None = None
    ) -> LedgerChanged:
        """Try once more to undo what a run that ended unsafe has left."""
        chosen = [*entries] if entries is not None else None
        return await self._call(RollbackAgain(run_id=run_id, entries=chosen))

    async def resolve(
        self,
        run_id: RunId,
        note: str,
        entries: Sequence[int] | None = None,
        *,
        go_on: bool = False,
    ) -> LedgerChanged:
        """Say that what a run has left is taken care of."""
        chosen = [*entries] if entries is not None else None
        return await self._call(
            ResolveEntries(run_id=run_id, note=note, entries=chosen, go_on=go_on)
        )
