"""Requests and replies to frames and back.

    request   [request id, opcode, body, keys]     keys, so that none is carried out twice, or none
    reply     [request id, 0, body]          accepted
              [request id, 1, refusal]       refused: {kind, code, message, details}

The body of a batch form is a list; its reply is a list of [0, body] and [1, refusal].
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from flo.model.base import Message
from flo.model.errors import Corrupt, FloError, Invalid, error_of
from flo.model.storage.request_keys import RequestKeys, check_request_keys
from flo.wire.frame import write_frame
from flo.wire.opcodes import BATCH_LENGTH_MAX, BY_OPCODE, FORMS, Form

Answer: TypeAlias = Message | FloError

_ACCEPTED = 0
_REFUSED = 1

_ARRAYS = (0x93, 0x94)
"""Without keys, and with them."""
_FIXINT_MAX = 0x7F
_UINT8 = 0xCC
_UINT_LENGTHS = {_UINT8: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
"""How msgpack begins a request, and the numbers in it."""

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not msgpack, hold broken text, or nest too deep."""


class Refusal(Message):
    kind: str
    code: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class _Envelope(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What requests and replies have in common: whose it is, what it is, and the rest."""

    request_id: int
    head: int
    body: msgspec.Raw


class _RequestEnvelope(_Envelope, array_like=True, frozen=True, gc=False):
    keys: RequestKeys | None = None


class Request(NamedTuple):
    """A request as received; `messages` is what it asks, or why it cannot be read."""

    request_id: int
    form: Form | None
    messages: list[Message] | FloError
    keys: RequestKeys | None = None
    length: int = 0
    """How many bytes it took."""


class Reply(NamedTuple):
    request_id: int
    body: msgspec.Raw | FloError


E = TypeVar("E", bound=_Envelope)

_encode = msgspec.msgpack.Encoder().encode
_decode_request_envelope = msgspec.msgpack.Decoder(_RequestEnvelope).decode
_decode_envelope = msgspec.msgpack.Decoder(_Envelope).decode
_decode_refusal = msgspec.msgpack.Decoder(Refusal).decode
_decode_answers = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]]).decode
_decode_request: dict[int, Callable[[msgspec.Raw], Any]] = {
    form.opcode: msgspec.msgpack.Decoder(
        list[form.request] if form.many else form.request  # type: ignore[name-defined]
    ).decode
    for form in FORMS
}
_decode_reply = {form.reply: msgspec.msgpack.Decoder(form.reply).decode for form in FORMS}


def encode_request(
    request_id: int, form: Form, messages: Sequence[Message], keys: RequestKeys | None = None
) -> bytes:
    body = messages if form.many else messages[0]
    if keys is None:
        return write_frame(_encode((request_id, form.opcode, body)))
    return write_frame(_encode((request_id, form.opcode, body, keys)))


def decode_request(frame: bytes) -> Request:
    envelope = _opened(frame, _decode_request_envelope)
    request_id, opcode, keys = envelope.request_id, envelope.head, envelope.keys
    form = BY_OPCODE.get(opcode)
    if form is None:
        problem = Invalid(f"opcode {opcode} is not known to this server", code="unknown_opcode")
        return Request(request_id, None, problem)
    try:
        decoded = _decode_request[opcode](envelope.body)
    except msgspec.ValidationError as error:
        problem = Invalid(f"{form.name}: {error}", code="invalid_request")
        return Request(request_id, form, problem)
    except _UNREADABLE as error:
        raise Corrupt(f"{form.name}: {error}", code="frame_damaged") from error
    messages: list[Message] = decoded if form.many else [decoded]
    if len(messages) > BATCH_LENGTH_MAX:
        problem = Invalid(
            f"{form.name}: expected at most {BATCH_LENGTH_MAX} in a batch, got {len(messages)}",
            code="batch_too_large",
        )
        return Request(request_id, form, problem)
    if keys is not None:
        try:
            check_request_keys(keys, len(messages))
        except Invalid as refusal:
            return Request(request_id, form, refusal)
    return Request(request_id, form, messages, keys, len(frame))


def request_id_in(beginning: bytes) -> int | None:
    """Whose the frame is that begins so; None if that cannot be read."""
    if len(beginning) < 10 or beginning[0] not in _ARRAYS:
        return None
    head = beginning[1]
    if head < _UINT8:
        return head if head <= _FIXINT_MAX else None
    length = _UINT_LENGTHS.get(head)
    return None if length is None else int.from_bytes(beginning[2 : 2 + length], "big")


def encode_reply(request_id: int, form: Form, answers: Sequence[Answer]) -> bytes:
    if form.many:
        return write_frame(_encode((request_id, _ACCEPTED, [_answer(one) for one in answers])))
    return write_frame(_encode((request_id, *_answer(answers[0]))))


def encode_refusal(request_id: int, error: FloError) -> bytes:
    return write_frame(_encode((request_id, *_answer(error))))


def decode_reply(frame: bytes) -> Reply:
    envelope = _opened(frame, _decode_envelope)
    body = envelope.body
    return Reply(envelope.request_id, body if envelope.head == _ACCEPTED else _refused(body))


def decode_answers(form: Form, body: msgspec.Raw) -> list[Answer]:
    """The answers in the body of an accepted reply, one for every message that was sent."""
    decode = _decode_reply[form.reply]
    try:
        if not form.many:
            return [decode(body)]
        return [
            decode(answer) if head == _ACCEPTED else _refused(answer)
            for head, answer in _decode_answers(body)
        ]
    except _UNREADABLE as error:
        raise Corrupt(f"the reply to {form.name}: {error}", code="reply_damaged") from error


def _opened(frame: bytes, decode: Callable[[bytes], E]) -> E:
    try:
        return decode(frame)
    except _UNREADABLE as error:
        raise Corrupt(f"expected [id, head, body]: {error}", code="frame_damaged") from error


def _answer(answer: Answer) -> tuple[int, Message]:
    if isinstance(answer, FloError):
        refusal = Refusal(
            kind=answer.kind, code=answer.code, message=answer.message, details=answer.details
        )
        return _REFUSED, refusal
    return _ACCEPTED, answer


def _refused(body: msgspec.Raw) -> FloError:
    try:
        refusal = _decode_refusal(body)
    except _UNREADABLE as error:
        raise Corrupt(f"expected a refusal: {error}", code="reply_damaged") from error
    return error_of(refusal.kind, refusal.code, refusal.message, refusal.details)
