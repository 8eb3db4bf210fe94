"""Blocks, ledgers and locks in a snapshot."""

from collections.abc import Iterable

from flo.engine.blocks.records import BlockRecord, Ledger, LockRequest
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import State
from flo.model.ids import Namespace

PER_CHUNK = 100


class BlocksPart(SnapshotPart):
    namespace: Namespace
    blocks: list[BlockRecord]


class LedgersPart(SnapshotPart):
    namespace: Namespace
    ledgers: list[Ledger]


class LocksPart(SnapshotPart):
    """Who holds and who waits, in order."""

    namespace: Namespace
    token: int
    requests: list[LockRequest]


def _dump(state: State) -> Iterable[BlocksPart]:
    for namespace, space in sorted(state.spaces.items()):
        for blocks in in_chunks(space.blocks.known.values(), PER_CHUNK):
            yield BlocksPart(namespace=namespace, blocks=blocks)


def _restore(state: State, part: BlocksPart) -> None:
    known = state.spaces[part.namespace].blocks.known
    for block in part.blocks:
        known[block.package, block.name, block.version] = block


def _dump_ledgers(state: State) -> Iterable[LedgersPart]:
    for namespace, space in sorted(state.spaces.items()):
        ledgers = [ledger for _, ledger in sorted(space.blocks.ledgers.items())]
        for chunk in in_chunks(ledgers, PER_CHUNK):
            yield LedgersPart(namespace=namespace, ledgers=chunk)


def _restore_ledgers(state: State, part: LedgersPart) -> None:
    blocks = state.spaces[part.namespace].blocks
    for ledger in part.ledgers:
        blocks.put_ledger(ledger)


def _dump_locks(state: State) -> Iterable[LocksPart]:
    for namespace, space in sorted(state.spaces.items()):
        locks = space.blocks.locks
        if locks.token or locks.requests:
            requests = list(locks.requests.values())
            yield LocksPart(namespace=namespace, token=locks.token, requests=requests)


def _restore_locks(state: State, part: LocksPart) -> None:
    locks = state.spaces[part.namespace].blocks.locks
    for request in part.requests:
        locks.request(request)
    locks.token = part.token


SNAPSHOT = (
    Section(BlocksPart, _dump, _restore),
    Section(LedgersPart, _dump_ledgers, _restore_ledgers),
    Section(LocksPart, _dump_locks, _restore_locks),
)
