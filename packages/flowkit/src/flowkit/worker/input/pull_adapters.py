"""PullAdapters: batches of upstream artifacts, read through a db handle.

A Worker does not use them for its own nodes: the server hands it batches, once for each. They are
for programs that read the artifacts of a task themselves; they claim nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from flowkit.core.config import WorkerConfig
from flowkit.core.utils import stable_hash
from flowkit.worker.handlers.base import Batch

Adapter = Callable[..., AsyncIterator[Batch]]

PULL = "pull.from_artifacts"
RECHUNK = "pull.from_artifacts.rechunk:size"


class PullAdapters:
    def __init__(self, *, db: Any, clock: Any = None, cfg: WorkerConfig | None = None) -> None:
        self.db = db
        self.clock = clock
        self.cfg = cfg or WorkerConfig()

    async def iter_from_artifacts(
        self,
        *,
        task_id: str,
        consumer_node: str,
        from_nodes: list[str],
        poll_ms: int | None = None,
        eof_on_task_done: bool = True,
        backoff_max_ms: int | None = None,
        cancel_flag: asyncio.Event | None = None,
    ) -> AsyncIterator[Batch]:
        """Every partial artifact of these nodes, as it is made."""
        times = (poll_ms, backoff_max_ms)
        rows = self._rows(task_id, from_nodes, times, eof_on_task_done, cancel_flag)
        async for from_node, row in rows:
            uid = row["batch_uid"]
            ref = {"task_id": task_id, "node_id": from_node, "batch_uid": uid}
            payload = {"from_node": from_node, "ref": ref, "meta": row.get("meta") or {}}
            yield Batch(batch_uid=uid, payload=payload)

    async def iter_from_artifacts_rechunk(
        self,
        *,
        task_id: str,
        consumer_node: str,
        from_nodes: list[str],
        size: int,
        poll_ms: int | None = None,
        eof_on_task_done: bool = True,
        backoff_max_ms: int | None = None,
        cancel_flag: asyncio.Event | None = None,
        meta_list_key: str | None = None,
    ) -> AsyncIterator[Batch]:
        """The same, each cut into slices of `size`."""
        times = (poll_ms, backoff_max_ms)
        rows = self._rows(task_id, from_nodes, times, eof_on_task_done, cancel_flag)
        async for from_node, row in rows:
            meta = row.get("meta") or {}
            found = meta.get(meta_list_key) if meta_list_key else None
            items = found if isinstance(found, list) else [meta]
            key = meta_list_key if isinstance(found, list) else None
            for index, start in enumerate(range(0, len(items), size)):
                uid = stable_hash({"src": from_node, "parent": row["batch_uid"], "idx": index})
                parent = {"ref": {"batch_uid": row["batch_uid"]}, "meta_list_key": key}
                part = items[start : start + size]
                yield Batch(
                    batch_uid=uid,
                    payload={"from_node": from_node, "items": part, "parent": parent},
                )

    async def _rows(
        self,
        task_id: str,
        from_nodes: list[str],
        times: tuple[float | None, float | None],
        eof_on_task_done: bool,
        cancel_flag: asyncio.Event | None,
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        poll_ms, backoff_max_ms = times
        first_ms = self.cfg.pull_poll_ms_default if poll_ms is None else poll_ms
        most_ms = self.cfg.pull_empty_backoff_ms_max if backoff_max_ms is None else backoff_max_ms
        seen: set[tuple[str, str]] = set()
        delay_ms = first_ms
        while not (cancel_flag is not None and cancel_flag.is_set()):
            has_ended = await self._have_ended(task_id, from_nodes)  # before the rows are read
            is_empty = True
            for from_node in from_nodes:
                for row in await self._partial(task_id, from_node):
                    key = (from_node, row["batch_uid"])
                    if key not in seen:
                        seen.add(key)
                        is_empty = False
                        yield from_node, row
            if has_ended and is_empty and eof_on_task_done:
                return
            delay_ms = min(delay_ms * 2, most_ms) if is_empty else first_ms
            await asyncio.sleep(delay_ms / 1_000 if not has_ended else 0)

    async def _have_ended(self, task_id: str, from_nodes: list[str]) -> bool:
        for node_id in from_nodes:
            query = {"task_id": task_id, "node_id": node_id, "status": "complete"}
            if not await self.db.artifacts.count_documents(query):
                return False
        return True

    async def _partial(self, task_id: str, node_id: str) -> list[dict[str, Any]]:
        query = {"task_id": task_id, "node_id": node_id, "status": "partial"}
        try:
            return [row async for row in self.db.artifacts.find(query)]
        except Exception:
            rows = getattr(self.db.artifacts, "rows", None)
            if rows is None:
                raise
            return [row for row in rows if query.items() <= row.items()]


def build_input_adapters(
    *, db: Any, clock: Any = None, cfg: WorkerConfig | None = None
) -> dict[str, Adapter]:
    """The adapters by name."""
    adapters = PullAdapters(db=db, clock=clock, cfg=cfg)
    return {PULL: adapters.iter_from_artifacts, RECHUNK: adapters.iter_from_artifacts_rechunk}
