"""Rules of requests: a repeated one is found by its key, and what was carried out is noted."""

from collections.abc import Iterable, Mapping

from flo.engine.context import Context
from flo.engine.due import REQUESTS, DueKey
from flo.engine.requests.events import KeyedRequestDone, RequestsDone, RequestsForgotten
from flo.engine.requests.replies import Answer, digest_of, packed, unpacked
from flo.engine.requests.table import KEY_WINDOW_MS, STEP_MS, KeyedReply, RequestTable
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.base import Message
from flo.model.errors import Conflict
from flo.model.ids import Namespace
from flo.model.storage.request_keys import RequestKeys

FORGETTING: DueKey = (REQUESTS,)


def known_answer(
    state: State, volatile: VolatileState, keys: RequestKeys, key: int | str, message: Message
) -> Answer | None:
    """What was replied to this request when it was carried out; None if it was not yet."""
    for table in (state.requests, volatile.requests):
        if isinstance(key, str):
            answer = _known_by_key(table, key, message)
        else:
            answer = _known_by_number(table, keys.session, key, message)
        if answer is not None:
            return answer
    return None


def _known_by_number(
    table: RequestTable, session_id: int, number: int, message: Message
) -> Answer | None:
    session = table.sessions.get(session_id)
    if session is None:
        return None
    reply = session.replies.get(number)
    if reply is not None:
        return unpacked(reply, message)
    if number < session.unheard:
        return Conflict(
            f"request {number} comes too late: its client has gone on to {session.unheard}",
            code="request_outdated",
        )
    return None


def _known_by_key(table: RequestTable, key: str, message: Message) -> Answer | None:
    known = table.keyed.get((_namespace_of(message), key))
    if known is None:
        return None
    if known.digest != digest_of(message):
        return Conflict(
            f"idempotency key {key!r} was used for another request: expected the same request "
            "again, or a key of its own for this one",
            code="idempotency_key_reused",
        )
    return unpacked(known.reply, message)


def numbered_done(session: int, unheard: int, done: Mapping[int, Answer]) -> RequestsDone:
    """What to remember of the requests of a session that were carried out."""
    numbers = sorted(done)
    return RequestsDone(
        session=session,
        unheard=unheard,
        numbers=tuple([number - unheard for number in numbers]),
        replies=tuple([packed(done[number]) for number in numbers]),
    )


def keyed_done(key: str, message: Message, answer: Answer) -> KeyedRequestDone:
    """What to remember of a request with a key that was carried out."""
    return KeyedRequestDone(
        namespace=_namespace_of(message),
        key=key,
        digest=digest_of(message),
        reply=packed(answer),
    )


def observe_done(
    volatile: VolatileState, keys: RequestKeys, done: Mapping[int, Answer], now_ms: int
) -> None:
    """Requests were carried out that change only what dies with the process: so does this."""
    numbers = sorted(done)
    replies = [packed(done[number]) for number in numbers]
    _pass_steps(volatile, now_ms)
    volatile.requests.add(keys.session, keys.unheard, numbers, replies)


def observe_keyed_done(
    volatile: VolatileState, key: str, message: Message, answer: Answer, now_ms: int
) -> None:
    """The same for a request with a key that a user chose."""
    reply = KeyedReply(now_ms, digest_of(message), packed(answer))
    _pass_steps(volatile, now_ms)
    volatile.requests.add_keyed((_namespace_of(message), key), reply)


def apply_done(state: State, event: RequestsDone) -> None:
    unheard = event.unheard
    numbers = [unheard + number for number in event.numbers]
    state.requests.add(event.session, unheard, numbers, event.replies)
    _forget_by(state, state.at_ms + STEP_MS)


def apply_keyed_done(state: State, event: KeyedRequestDone) -> None:
    reply = KeyedReply(state.at_ms, event.digest, event.reply)
    state.requests.add_keyed((event.namespace, event.key), reply)
    _forget_by(state, state.at_ms + KEY_WINDOW_MS)


def apply_forgotten(state: State, event: RequestsForgotten) -> None:
    state.requests.forget(event.at_ms)
    state.due.clear(FORGETTING)
    at_ms = state.requests.next_at_ms(event.at_ms)
    if at_ms is not None:
        state.due.set(FORGETTING, at_ms)


def forget_due(state: State, key: DueKey, context: Context) -> Iterable[RequestsForgotten]:
    return (RequestsForgotten(at_ms=context.now_ms),)


def _forget_by(state: State, at_ms: int) -> None:
    """There is something to be forgotten at this time, if not before."""
    due_at_ms = state.due.time_of(FORGETTING)
    if due_at_ms is None or at_ms < due_at_ms:
        state.due.set(FORGETTING, at_ms)


def _pass_steps(volatile: VolatileState, now_ms: int) -> None:
    """No timer looks after what is volatile: it is done when something is added."""
    if now_ms >= volatile.requests_step_at_ms:
        volatile.requests.forget(now_ms)
        volatile.requests_step_at_ms = now_ms + STEP_MS


def _namespace_of(message: Message) -> Namespace:
    namespace: Namespace = getattr(message, "namespace", "")
    return namespace
