"""ArtifactsWriter: what a handler writes about its batches while it works on them."""

from typing import Any

from flo.client.handles.leased_node import LeasedNode


class ArtifactsWriter:
    """The result of a batch overwrites what was written for it meanwhile.

    `completed` is what a handler has said of the node as a whole; it counts once the node has
    finished, together with what `finalize` returns.
    """

    def __init__(self, node: LeasedNode) -> None:
        self._node = node
        self.completed: dict[str, Any] = {}
        self.reference: dict[str, Any] | None = None

    async def upsert_partial(self, batch_uid: str, meta: dict[str, Any]) -> dict[str, Any]:
        """Write the artifact of a batch; returns a reference to it."""
        if not batch_uid:
            raise ValueError("expected batch_uid as text that is not empty, got an empty one")
        await self._node.put_artifact(batch_uid, meta or {})
        return {**self._ref(), "batch_uid": batch_uid}

    async def mark_complete(
        self, meta: dict[str, Any], artifacts_ref: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Say what the node has made as a whole."""
        self.completed = dict(meta or {})
        self.reference = artifacts_ref or self.reference
        return artifacts_ref or self._ref()

    def _ref(self) -> dict[str, Any]:
        start = self._node.start
        return {"task_id": start.id, "node_id": start.node}
