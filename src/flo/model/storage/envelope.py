"""How a payload that is sealed with a key lies in the store: room for it, nothing is sealed yet.

A payload is a msgpack `bin`. In the same place may lie a msgpack extension of type 1, an
**envelope**: the id of a key and bytes that only that key opens. Chains and checksums cover an
envelope as it lies there, so they stay right after its key has been destroyed.

This release has no keys: it refuses an envelope by the name of its key, and never takes it for
damage.
"""

from typing import Any

import msgspec

from flo.model.errors import Conflict, FloError

ENVELOPE_TYPE = 1


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A sealed payload: the id of its key, and what that key opens."""

    key_id: str
    sealed: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def packed(envelope: Envelope) -> msgspec.msgpack.Ext:
    """What stands in the place of the payload."""
    return msgspec.msgpack.Ext(ENVELOPE_TYPE, _encoder.encode(envelope))


def refused(body: bytes) -> FloError | None:
    """Why bytes that cannot be read are no damage: they hold an envelope; None if they do not."""
    envelopes: list[Envelope] = []

    def note(kind: int, data: memoryview) -> Any:
        if kind == ENVELOPE_TYPE:
            envelopes.append(_decoder.decode(data))

    try:
        msgspec.msgpack.Decoder(ext_hook=note).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not envelopes:
        return None
    return Conflict(
        f"a payload is sealed with key {envelopes[0].key_id!r}, and this Flo has no keys; "
        "start the newer Flo that sealed it",
        code="payload_sealed",
        details={"key_id": envelopes[0].key_id},
    )
