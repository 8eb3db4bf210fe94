"""RoleHandler: the code of one role, called in a fixed order for every node of it.

    init ──▸ load_input ──▸ the input is chosen and checked ──▸ process_batch … ──▸ finalize

One instance serves every node of its role, one after the other unless the worker says otherwise.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from flo.worker.pipelines.batches import Batch, BatchResult, FinalizeResult

if TYPE_CHECKING:
    from flo.worker.pipelines.context import RunContext

UNEXPECTED_ERROR = "unexpected_error"


class RoleHandler:
    """Override what you need; every method has a default."""

    role: str = ""

    async def init(self, cfg: dict[str, Any]) -> None:
        """Before all else: `cfg` has task_id, node_id, attempt_epoch, worker_id, role and the
        params of the pipeline.
        """

    async def load_input(
        self, input_ref: dict[str, Any] | None, input_inline: dict[str, Any] | None
    ) -> Any:
        """What `iter_batches` gets. An `input_inline` in it may propose an input adapter, for
        nodes whose graph names none.
        """
        return {"input_ref": input_ref or {}, "input_inline": input_inline or {}}

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        """The batches of a node without an input adapter."""
        yield Batch(payload=loaded or {})

    async def process_batch(self, batch: Batch, ctx: "RunContext") -> BatchResult:
        return BatchResult(success=True, metrics={"processed": 1})

    async def finalize(self, ctx: "RunContext") -> FinalizeResult | None:
        return FinalizeResult()

    def classify_error(self, exc: BaseException) -> tuple[str, bool]:
        """The reason code of an error, and whether trying again cannot help."""
        return UNEXPECTED_ERROR, isinstance(exc, TypeError | ValueError | KeyError)
