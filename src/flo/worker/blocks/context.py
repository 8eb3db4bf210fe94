"""What a block knows about its job."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from flo.model.blocks.blocks import RunOn
from flo.model.blocks.jobs import JobInput
from flo.model.ids import RunId
from flo.worker.blocks.entities import Entities, Entity

EXTEND_MS = 60_000

_logger = logging.getLogger("flo.blocks")


class BlockContext:
    """`devices`, `groups` and `interfaces` are the entities that the run has locked, `entity` the
    one that this job is for. `cancelled` turns true when the result no longer counts.
    """

    def __init__(
        self,
        job: JobInput,
        attempt: int = 1,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
        extend: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._job = job
        self._is_cancelled = is_cancelled
        self._extend = extend
        self.attempt = attempt
        self.devices = Entities("device", job.context.devices)
        self.groups = Entities("group", job.context.deviceGroups)
        self.interfaces = Entities("interface", job.context.interfaces)
        self.entity = self._entity()
        self.log = _JobLog(_logger, {"job": f"{job.run_id}/{job.step}"})
        self.progress_notes: list[str] = []
        """What the block has said with `progress`."""

    @property
    def run_id(self) -> RunId:
        """The workflow run that this job is a part of."""
        return self._job.run_id

    @property
    def step(self) -> str:
        return self._job.step

    @property
    def block(self) -> str:
        return self._job.block

    @property
    def run_on(self) -> RunOn:
        return self._job.run_on

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this step: hand it on to what must not do it twice."""
        return self._job.idempotency_key

    @property
    def locks(self) -> dict[str, int]:
        """The keys that the run holds, each with its fencing token."""
        return {lock.key: lock.token for lock in self._job.locks}

    @property
    def cancelled(self) -> bool:
        return self._is_cancelled()

    def raise_if_cancelled(self) -> None:
        """For code in threads: end here if the result no longer counts."""
        if self.cancelled:
            raise asyncio.CancelledError("the result of this job no longer counts")

    async def progress(self, note: str, *, extend_ms: int = EXTEND_MS) -> None:
        """Say in the log how far it is, and have `extend_ms` from now on at least."""
        self.progress_notes.append(note)
        self.log.info("%s", note)
        if self._extend is not None:
            await self._extend(extend_ms)

    def updates(self) -> list[dict[str, Any]]:
        """What became of the entities since the job began."""
        kinds = (self.devices, self.groups, self.interfaces)
        return [change for kind in kinds for change in kind.changes()]

    def _entity(self) -> Entity | None:
        kind = {
            RunOn.DEVICE: self.devices,
            RunOn.GROUP: self.groups,
            RunOn.INTERFACE: self.interfaces,
        }.get(self.run_on)
        return kind.by_id(self._job.entity_id) if kind is not None else None


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Says of which job a line is."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> Any:
        assert self.extra is not None
        return f"{self.extra['job']}: {msg}", kwargs
