"""The parameters of block steps: what of them is known when, and whether it fits the schema."""

from collections.abc import Iterator
from typing import Any

import msgspec

from flo.engine.actions.schemas import check_schema
from flo.engine.blocks.entities import KINDS
from flo.engine.blocks.records import BlockRecord
from flo.engine.blocks.registration import named_block, required_in
from flo.engine.context import Context
from flo.engine.state import Space
from flo.model.blocks.names import parse_reference
from flo.model.errors import Invalid
from flo.workflow.definition import Definition
from flo.workflow.graph import areas_of
from flo.workflow.jmes import ExpressionError
from flo.workflow.mapping import Scope, compile_mapping
from flo.workflow.payload import value_of
from flo.workflow.steps import RunStep, TargetKind

INVALID_PARAMETERS = "invalid_parameters"


def block_steps(definition: Definition) -> Iterator[tuple[str, RunStep]]:
    """The steps that run blocks, wherever in the graph they are."""
    for area in areas_of(definition):
        for name, step in area.steps.items():
            if isinstance(step, RunStep) and step.run.kind is TargetKind.BLOCK:
                yield name, step


def reference_of(step: RunStep) -> str:
    return f"{step.run.name}:{step.run.version}"


def check_create(space: Space, definition: Definition, context: Context) -> None:
    """Refuse what can never run: a block that is there asks for parameters that a step lacks.

    A block that is not there yet may be registered before the workflow is started.
    """
    for name, step in block_steps(definition):
        reference = parse_reference(reference_of(step))
        block = space.blocks.resolve(reference) if reference is not None else None
        mapping = _object_of(step.input_mapping or "$.input")
        if block is None or mapping is None:
            continue
        missing = sorted(required_in(block.parameter_schema) - mapping.keys())
        if missing:
            raise Invalid(
                f"step {name!r} gives block {block.id} no {', '.join(missing)}",
                code=INVALID_PARAMETERS,
                details={"step": name, "block": block.id, "missing": missing},
            )
        if not compile_mapping(step.input_mapping or "").paths:
            check_parameters(block, msgspec.json.encode(mapping), f"step {name!r}", context)


def check_start(space: Space, definition: Definition, payload: bytes, context: Context) -> None:
    """Refuse to start what cannot run: a block is missing, or parameters are wrong already."""
    for name, step in block_steps(definition):
        block = named_block(space, reference_of(step))
        parameters, unresolved = known_parameters(step, payload, context.now_ms)
        if not unresolved:
            encoded = msgspec.json.encode(parameters)
            check_parameters(block, encoded, f"step {name!r}", context)


def check_parameters(block: BlockRecord, payload: bytes, who: str, context: Context) -> None:
    what = f"what {who} gives to block {block.id}"
    check_schema(block.parameter_schema, payload, what, INVALID_PARAMETERS, context)


def parameters_of(payload: bytes) -> dict[str, Any]:
    """The parameters of a block: an object."""
    try:
        return msgspec.json.decode(payload or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(
            f"expected an object as the parameters of a block, got {payload[:80]!r}",
            code=INVALID_PARAMETERS,
        ) from error


def known_parameters(
    step: RunStep, payload: bytes, now_ms: int
) -> tuple[dict[str, Any], list[str]]:
    """What is known before any step has run, and the names of the rest."""
    value = value_of(payload)
    if not step.input_mapping:
        return (value, []) if isinstance(value, dict) else ({}, [])
    scope = Scope(input=value, steps={}, run_id="", now_ms=now_ms)
    mapping = _object_of(step.input_mapping)
    if mapping is None:
        if not is_known_at_start(step.input_mapping):
            return {}, ["*"]
        found = compile_mapping(step.input_mapping).resolve(scope)
        return (found, []) if isinstance(found, dict) else ({}, [])
    known: dict[str, Any] = {}
    unresolved: list[str] = []
    for key, one in mapping.items():
        text = msgspec.json.encode(one).decode()
        if not is_known_at_start(text):
            unresolved.append(key)
            continue
        try:
            known[key] = compile_mapping(text).resolve(scope)
        except ExpressionError:  # its step fails when it comes to it, or is passed over
            unresolved.append(key)
    return known, unresolved


def is_known_at_start(text: str) -> bool:
    """Whether a mapping looks at nothing that a step must have made first."""
    return not compile_mapping(text).steps


def is_for_each_entity(payload: bytes) -> bool:
    """Whether a run is only there to start one for each of several entities."""
    value = value_of(payload)
    return isinstance(value, dict) and isinstance(value.get("executeOn"), dict)


def entity_in(payload: bytes) -> tuple[str, int] | None:
    """The entity that a run is about, if its input names one."""
    value = value_of(payload)
    entity = value.get("entity") if isinstance(value, dict) else None
    if not isinstance(entity, dict):
        return None
    kind, number = entity.get("type"), entity.get("id")
    if kind not in KINDS or not isinstance(number, int) or isinstance(number, bool) or number < 1:
        return None
    return str(kind), number


def _object_of(mapping: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(mapping, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
