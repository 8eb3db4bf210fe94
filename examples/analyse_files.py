"""Counts the words of files: one node lists them, one reads them, one adds them up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from flo import Batch, BatchResult, PipelineWorker, RoleHandler, RunContext

LISTED = 20


class Index(RoleHandler):
    role = "indexer"

    async def init(self, cfg: dict[str, Any]) -> None:
        self.folder = Path(cfg["params"]["folder"])

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        paths = sorted(str(path) for path in self.folder.rglob("*.txt"))
        for start in range(0, len(paths), LISTED):  # the same uids in every attempt
            part = paths[start : start + LISTED]
            yield Batch(batch_uid=f"from-{part[0]}", payload={"paths": part})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        paths = batch.payload["paths"]
        return BatchResult(success=True, metrics={"paths": paths, "files": len(paths)})


class Enrich(RoleHandler):
    role = "enricher"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        words: Counter[str] = Counter()
        for path in batch.payload["items"]:  # at most as many as the graph says
            await ctx.raise_if_cancelled()
            words += await asyncio.to_thread(words_of, path)
        return BatchResult(success=True, metrics={"words": sorted(words.items())})


def words_of(path: str) -> Counter[str]:
    return Counter(Path(path).read_text(encoding="utf-8").lower().split())


class Analyse(RoleHandler):
    role = "analyser"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        words = batch.payload["meta"]["words"]
        return BatchResult(success=True, metrics={"counted": sum(count for _, count in words)})


if __name__ == "__main__":
    PipelineWorker(handlers=[Index(), Enrich(), Analyse()], concurrency=3).run()
