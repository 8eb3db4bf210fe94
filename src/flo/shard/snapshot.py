"""State to bytes and back, so that replay is short: one chunk after the other, noun by noun."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from flo.engine.machine import SNAPSHOT
from flo.engine.snapshot import SnapshotPart
from flo.engine.state import State
from flo.model.errors import Corrupt

_union: Any = reduce(or_, (section.part for section in SNAPSHOT))
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decoder: msgspec.msgpack.Decoder[SnapshotPart] = msgspec.msgpack.Decoder(_union)
_SECTIONS = {section.part: section for section in SNAPSHOT}


def dump(state: State) -> Iterator[bytes]:
    """The state in chunks; equal states give equal bytes."""
    for section in SNAPSHOT:
        for part in section.dump(state):
            yield _encode(part)


def load(chunks: Iterable[bytes]) -> State:
    state, count = State(), 0
    try:
        for chunk in chunks:
            part = _decoder.decode(chunk)
            _SECTIONS[type(part)].restore(state, part)
            count += 1
    except msgspec.DecodeError as error:
        raise _damaged(error) from error
    if not count:
        raise _damaged("it is empty")
    return state


def _damaged(why: object) -> Corrupt:
    return Corrupt(f"a snapshot that cannot be read: {why}", code="snapshot_damaged")


def fingerprint(state: State) -> str:
    """Equal states have equal fingerprints, whether they were lived or replayed."""
    digest = hashlib.sha256()
    for chunk in dump(state):
        digest.update(chunk)
    return digest.hexdigest()
