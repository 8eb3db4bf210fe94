"""From an upstream batch to the batches of its consumer: as it is, or cut into slices."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from flo.model.pipelines.hashing import chunk_uid
from flo.model.pipelines.work import InputBatch, InputClaim
from flo.worker.pipelines.batches import Batch


class ClaimedBatch(NamedTuple):
    """A batch for the handler, and the batch of a source that it was made of.

    `parts` is how many batches that was cut into, not counting those that were recorded before.
    """

    batch: Batch
    claim: InputClaim | None = None
    parts: int = 1


ClaimedBatches: TypeAlias = AsyncGenerator[ClaimedBatch, None]


def claim_of(source: InputBatch) -> InputClaim:
    return InputClaim(from_node=source.from_node, number=source.number)


def passed_on(source: InputBatch, pipeline_id: str) -> ClaimedBatch:
    """The batch of a source as it is, under its own uid."""
    uid, from_node = source.batch_uid, source.from_node
    ref = {"task_id": pipeline_id, "node_id": from_node, "batch_uid": uid}
    payload = {"from_node": from_node, "ref": ref, "meta": _meta(source)}
    return ClaimedBatch(Batch(batch_uid=uid, payload=payload), claim_of(source))


def rechunked(source: InputBatch, size: int, meta_list_key: str | None) -> Iterator[ClaimedBatch]:
    """Slices of the list under the key; without such a list, the meta is the only item.

    The uid of a slice depends on its parent and its place alone. What an earlier attempt has
    recorded is left out.
    """
    meta = _meta(source)
    found = meta.get(meta_list_key) if meta_list_key is not None else None
    items: list[Any]
    if isinstance(found, list):
        items, key = found, meta_list_key
    else:
        items, key = [meta], None
    parent, from_node = source.batch_uid, source.from_node
    recorded = frozenset(source.done_uids)
    todo = []
    for index, start in enumerate(range(0, len(items), size)):
        uid = chunk_uid(from_node, parent, index)
        if uid not in recorded:
            todo.append((uid, items[start : start + size]))
    claim = claim_of(source)
    for uid, part in todo:
        payload = {
            "from_node": from_node,
            "items": part,
            "parent": {"ref": {"batch_uid": parent}, "meta_list_key": key},
        }
        yield ClaimedBatch(Batch(batch_uid=uid, payload=payload), claim, len(todo))


def _meta(source: InputBatch) -> dict[str, Any]:
    meta = msgspec.json.decode(source.meta)
    return meta if isinstance(meta, dict) else {}
