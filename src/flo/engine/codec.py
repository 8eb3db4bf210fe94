"""Events to bytes and back."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from flo.engine.machine import EVENTS
from flo.model.base import Event
from flo.model.errors import Corrupt
from flo.model.storage.envelope import refused

_union: Any = reduce(or_, EVENTS)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[_union])


class EventCodec:
    """What a log is given, so that it needs to know no event."""

    def encode(self, events: Sequence[Event]) -> bytes:
        return _encoder.encode(events)

    def decode(self, body: bytes) -> list[Event]:
        try:
            return _decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise refused(body) or Corrupt(
                f"expected events of this release, got {len(body)} bytes that cannot be "
                f"read as such: {error}"
            ) from error


EVENT_CODEC = EventCodec()
