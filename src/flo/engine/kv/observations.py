"""What is observed of open transactions: no log knows of them before they are committed."""

from collections.abc import Mapping

from flo.engine.feature import Observe
from flo.engine.kv.events import TransactionClosed, TransactionFilled, TransactionOpened
from flo.engine.volatile import OpenTransaction, VolatileState
from flo.model.base import Observation


def observe_opened(volatile: VolatileState, observation: TransactionOpened, now_ms: int) -> None:
    number = observation.transaction
    volatile.transactions_opened = number
    volatile.transactions[number] = OpenTransaction(observation.namespace, now_ms)


def observe_filled(volatile: VolatileState, observation: TransactionFilled, now_ms: int) -> None:
    transaction = volatile.transactions[observation.transaction]
    transaction.touched_at_ms = now_ms
    if observation.change is not None:
        transaction.changes.append(observation.change)
    if observation.read is not None:
        transaction.reads.setdefault(observation.read.key, observation.read)


def observe_closed(volatile: VolatileState, observation: TransactionClosed, now_ms: int) -> None:
    volatile.transactions.pop(observation.transaction, None)


OBSERVATIONS: Mapping[type[Observation], Observe] = {
    TransactionOpened: observe_opened,
    TransactionFilled: observe_filled,
    TransactionClosed: observe_closed,
}
