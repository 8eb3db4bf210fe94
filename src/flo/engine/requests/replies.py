"""Replies as they are kept: the values of a reply without the names of its fields.

reply     [value, value, …]
refusal   {kind, code, message, details}     of a request that changed something all the same
"""

import hashlib
from typing import Any, TypeAlias

import msgspec

from flo.engine.audit.audited import asked_in
from flo.engine.decision import Unfilled
from flo.model.base import Message
from flo.model.declare.operation import DECLARED
from flo.model.errors import Conflict, FloError, error_of

REPLY_LENGTH_MAX = 64 * 1024
"""A longer one is not kept: a repeated request hears that it was carried out, and no more."""
NOT_KEPT = b""
DIGEST_LENGTH = 16

Answer: TypeAlias = Message | FloError

_encode = msgspec.msgpack.Encoder().encode
_values_of = msgspec.structs.astuple


def packed(answer: Answer) -> bytes:
    if isinstance(answer, Unfilled):
        return NOT_KEPT
    if isinstance(answer, FloError):
        reply = _encode(
            {
                "kind": answer.kind,
                "code": answer.code,
                "message": answer.message,
                "details": answer.details,
            }
        )
    else:
        reply = _encode(_values_of(answer))
    return reply if len(reply) <= REPLY_LENGTH_MAX else NOT_KEPT


def unpacked(reply: bytes, message: Message) -> Answer:
    """The answer that was given to this message, or to the same one earlier."""
    if reply == NOT_KEPT:
        return Conflict(
            "this request was carried out already, and its reply was too long to be kept: "
            "look at what it has changed",
            code="reply_not_kept",
        )
    kept: Any = msgspec.msgpack.decode(reply)
    if isinstance(kept, dict):
        return error_of(**kept)
    kind = _reply_of(type(asked_in(message)))
    return msgspec.convert(dict(zip(kind.__struct_encode_fields__, kept, strict=True)), kind)


def _reply_of(kind: type[Message]) -> type[Message]:
    """What the server makes of an operation says itself what its reply is."""
    reply: type[Message] = getattr(kind, "REPLY", None) or DECLARED[kind].reply
    return reply


def digest_of(message: Message) -> bytes:
    asked = asked_in(message)
    told_apart = getattr(asked, "told_apart_by", lambda: asked)()
    content = _encode((type(asked).__name__, told_apart))
    return hashlib.blake2b(content, digest_size=DIGEST_LENGTH).digest()
