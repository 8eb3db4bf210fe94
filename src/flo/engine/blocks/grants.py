"""Rules and reactions of locks: who is granted what it wants, and what was kept is released."""

from collections.abc import Iterable, Iterator

from flo.engine.blocks.events import LocksGranted, LocksReleased, LocksRequested
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import State
from flo.model.base import Event, Nothing
from flo.model.blocks.locks import ReleaseLock
from flo.model.errors import Conflict, NotFound
from flo.model.ids import Namespace


def decide_release(state: State, command: ReleaseLock, context: Context) -> Decision:
    locks = state.space(command.namespace).blocks.locks
    line = locks.lines.get(command.key)
    if line is None or not line.holders:
        raise NotFound(f"nobody holds lock {command.key!r}", code="lock_not_found")
    kept = [run_id for run_id in line.holders if locks.requests[run_id].kept]
    if not kept:
        holders = ", ".join(line.holders)
        raise Conflict(
            f"lock {command.key!r} is held by {holders}, which has not ended: cancel it",
            code="lock_in_use",
        )
    released = [
        LocksReleased(
            namespace=command.namespace,
            run_id=run_id,
            at_ms=context.now_ms,
            keys=(command.key,),
            reason=command.reason,
        )
        for run_id in kept
    ]
    return Decision(Nothing(), tuple(released))


def react_requested(state: State, event: LocksRequested, context: Context) -> Iterable[Event]:
    """A run that nobody stands before has its locks at once."""
    locks = state.spaces[event.namespace].blocks.locks
    if not locks.is_free(locks.requests[event.run_id]):
        return ()
    token = locks.token + 1
    return (
        LocksGranted(
            namespace=event.namespace, run_id=event.run_id, token=token, at_ms=context.now_ms
        ),
    )


def react_released(state: State, event: LocksReleased, context: Context) -> Iterable[Event]:
    """Those who waited for these keys, in their order."""
    return _granted(state, event.namespace, event.keys, context.now_ms)


def _granted(
    state: State, namespace: Namespace, keys: tuple[str, ...], now_ms: int
) -> Iterator[Event]:
    locks = state.spaces[namespace].blocks.locks
    while (run_id := locks.next_granted(keys)) is not None:
        yield LocksGranted(namespace=namespace, run_id=run_id, token=locks.token + 1, at_ms=now_ms)
