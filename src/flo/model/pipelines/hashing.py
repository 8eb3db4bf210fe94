"""Ids of batches that are the same in every attempt, and what stands for them in memory."""

from hashlib import blake2b

from flo.core.stable_hash import stable_hash


def chunk_uid(from_node: str, parent_uid: str, index: int) -> str:
    """The uid of a part of a batch, the same in every attempt."""
    return stable_hash({"src": from_node, "parent": parent_uid, "idx": index})


def uid_number(uid: str) -> int:
    """64 bits that stand for a uid where very many are remembered."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest())
