"""Rules of registration: a block makes three actions, whose runs are its jobs."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from flo.engine.actions.events import ActionDeleted, ActionRegistered
from flo.engine.actions.records import Action
from flo.engine.actions.schemas import schema_text
from flo.engine.blocks.container import BlockSpace
from flo.engine.blocks.events import BlockDeleted, BlockRegistered
from flo.engine.blocks.records import BlockRecord
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import Space, State
from flo.model.base import Event, Nothing
from flo.model.blocks.blocks import (
    BlockDeclaration,
    BlocksRegistered,
    DeleteBlock,
    OnWorkerLost,
    RegisterBlocks,
    RegisteredBlock,
)
from flo.model.blocks.names import JobType, job_action, parse_reference
from flo.model.declare.fields import check_fields
from flo.model.errors import Invalid, NotFound
from flo.model.ids import Namespace

RETRIES_OF_OTHER_JOBS = 4
"""ACQUIRE and ROLLBACK are given out five times: they may be repeated."""
RETRY_DELAY_MS = 1_000


def decide_register(state: State, command: RegisterBlocks, context: Context) -> Decision:
    space = state.space(command.namespace)
    events: list[Event] = []
    registered: list[RegisteredBlock] = []
    ahead: dict[str, BlockRecord] = {}
    for spec in command.blocks:
        check_fields(spec)
        block = _block(spec, context.now_ms)
        known = ahead.get(block.id) or _known(space.blocks, block)
        registered.append(RegisteredBlock(block=block.id, created=known is None))
        if known is not None:
            block = replace(block, created_at_ms=known.created_at_ms)
            if block == replace(known, updated_at_ms=block.updated_at_ms):
                continue
        for other in _to_compare(space.blocks, block, known):
            _check_compatible(block, other)
        ahead[block.id] = block
        events.append(BlockRegistered(namespace=command.namespace, block=block))
        events += _actions(command.namespace, space, block, context)
    return Decision(BlocksRegistered(blocks=registered), tuple(events))


def decide_delete(state: State, command: DeleteBlock, context: Context) -> Decision:
    space = state.space(command.namespace)
    block = named_block(space, command.block)
    gone = BlockDeleted(namespace=command.namespace, block=block.id, at_ms=context.now_ms)
    names = (job_action(block.id, job) for job in JobType)
    actions = [
        ActionDeleted(namespace=command.namespace, name=name, at_ms=context.now_ms)
        for name in names
        if name in space.actions
    ]
    return Decision(Nothing(), (gone, *actions))


def named_block(space: Space, reference: str) -> BlockRecord:
    """The block that a reference names."""
    parsed = parse_reference(reference)
    block = space.blocks.resolve(parsed) if parsed is not None else None
    if block is None:
        raise NotFound(f"block {reference!r} is not registered", code="block_not_found")
    return block


def _block(spec: BlockDeclaration, now_ms: int) -> BlockRecord:
    major, minor, patch = map(int, spec.version.split("."))
    return BlockRecord(
        package=spec.package,
        name=spec.name,
        version=(major, minor, patch),
        description=spec.description,
        help=spec.help,
        run_on=spec.run_on,
        type=spec.type,
        deprecated=spec.deprecated,
        parameter_schema=schema_text(spec.parameter_schema, "the parameter schema"),
        result_schema=schema_text(spec.result_schema, "the result schema"),
        pure=spec.pure,
        idempotent=spec.idempotent,
        reversible=spec.reversible,
        timeout_ms=spec.timeout_ms,
        on_worker_lost=spec.on_worker_lost,
        max_attempts=spec.max_attempts,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )


def _known(blocks: BlockSpace, block: BlockRecord) -> BlockRecord | None:
    return blocks.known.get((block.package, block.name, block.version))


def _to_compare(
    blocks: BlockSpace, block: BlockRecord, known: BlockRecord | None
) -> Iterable[BlockRecord]:
    """What users of the same major number may have now: this version, or those beside it."""
    if known is not None:
        return (known,)
    major = block.version[0]
    place = (block.package, block.name, block.version)
    first = (block.package, block.name, (major, 0, 0))
    last = (block.package, block.name, (major + 1, 0, 0))
    before = next(blocks.known.irange(first, place, (True, False), reverse=True), None)
    after = next(blocks.known.irange(place, last, (False, False)), None)
    return [blocks.known[one] for one in (before, after) if one is not None]


def _check_compatible(block: BlockRecord, other: BlockRecord) -> None:
    newer, older = (block, other) if block.version >= other.version else (other, block)
    more = sorted(required_in(newer.parameter_schema) - required_in(older.parameter_schema))
    if more:
        raise Invalid(
            f"block {newer.id} asks for {', '.join(more)}, which {older.id} does not: give it "
            "another major number, or defaults for them",
            code="block_incompatible",
            details={"block": newer.id, "than": older.id, "required": more},
        )
    fewer = sorted(_properties(older.result_schema) - _properties(newer.result_schema))
    if fewer:
        raise Invalid(
            f"the result of block {newer.id} lacks {', '.join(fewer)}, which {older.id} has: give "
            "it another major number",
            code="block_incompatible",
            details={"block": newer.id, "than": older.id, "missing": fewer},
        )


def required_in(schema: str | None) -> set[str]:
    """The parameters that a schema asks for."""
    found = msgspec.json.decode(schema or "{}").get("required", ())
    return {one for one in found if isinstance(one, str)}


def _properties(schema: str | None) -> set[str]:
    found = msgspec.json.decode(schema or "{}").get("properties", {})
    return set(found) if isinstance(found, dict) else set()


def _actions(
    namespace: Namespace, space: Space, block: BlockRecord, context: Context
) -> Iterator[ActionRegistered]:
    requeues = block.on_worker_lost is OnWorkerLost.REQUEUE
    retries = {JobType.EXECUTE: block.max_attempts - 1 if requeues else 0}
    for job in JobType:
        name = job_action(block.id, job)
        known = space.actions.get(name)
        action = Action(
            name=name,
            timeout_ms=block.timeout_ms,
            max_retries=retries.get(job, RETRIES_OF_OTHER_JOBS),
            retry_delay_ms=RETRY_DELAY_MS,
            description=f"{job} jobs of {block.id}",
            version=known.version + 1 if known is not None else 1,
            created_at_ms=known.created_at_ms if known is not None else context.now_ms,
            updated_at_ms=context.now_ms,
        )
        yield ActionRegistered(namespace=namespace, action=action)
