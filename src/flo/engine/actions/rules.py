"""Rules of action registration.

Whether a module is fit to be an action has been found out before it comes here: that takes a
compiler, and time.
"""

from hashlib import sha256

from msgspec.structs import replace

from flo.engine.actions.events import (
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.engine.actions.records import Action, Guest
from flo.engine.actions.schemas import schema_text
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.runs.events import RunsRekeyed
from flo.engine.runs.inputs.limit_keys import rekeyed
from flo.engine.runs.limits import fit
from flo.engine.state import NO_RUNS, Space, State
from flo.model.actions import (
    ActionLimits,
    DeleteAction,
    DisableAction,
    EnableAction,
    RegisterAction,
    Registered,
)
from flo.model.base import Event, Nothing
from flo.model.blocks.names import JOB_PREFIX
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import (
    ActionName,
)
from flo.model.workflows import RUN_PREFIX
from flo.workflow.mapping import Root, compile_template


def decide_register(state: State, command: RegisterAction, context: Context) -> Decision:
    if command.name == RUN_PREFIX:
        raise Invalid(
            f"expected another name than {RUN_PREFIX!r}: the runs of workflows are called so",
            code="name_reserved",
        )
    if command.name.startswith(JOB_PREFIX):
        raise Invalid(
            f"expected a name that does not begin with {JOB_PREFIX!r}: actions of blocks do",
            code="name_reserved",
        )
    space = state.space(command.namespace)
    known = space.actions.get(command.name)
    _check_version(command, known)
    guest = _guest(state, command)
    input_schema, output_schema = check_schemas(command)
    action = Action(
        name=command.name,
        timeout_ms=command.timeout_ms,
        max_retries=command.max_retries,
        retry_delay_ms=command.retry_delay_ms,
        description=command.description,
        input_schema=input_schema,
        output_schema=output_schema,
        version=known.version + 1 if known else 1,
        enabled=known.enabled if known else True,
        disabled_since=known.disabled_since if known else None,
        created_at_ms=known.created_at_ms if known else context.now_ms,
        updated_at_ms=context.now_ms,
        guest=guest,
        limits=_limits(command),
        secrets=tuple(sorted(set(command.secrets))),
    )
    if known and command.if_changed and _same_settings(known, action):
        return Decision(Registered(name=known.name, version=known.version))
    events: list[Event] = [ActionRegistered(namespace=command.namespace, action=action)]
    module = command.wasm_module
    if guest is not None and module is not None and guest.digest not in state.modules:
        events.insert(0, ModuleStored(digest=guest.digest, body=module))
    if keys := rekeyed(space, action, context):
        events.append(
            RunsRekeyed(namespace=command.namespace, action=action.name, keys=tuple(keys))
        )
    return Decision(Registered(name=action.name, version=action.version), tuple(events))


def check_schemas(command: RegisterAction) -> tuple[str | None, str | None]:
    """The schemas as they are kept: of the input, of the output."""
    return (
        schema_text(command.input_schema, "the input schema"),
        schema_text(command.output_schema, "the output schema"),
    )


def decide_delete(state: State, command: DeleteAction, context: Context) -> Decision:
    named_action(state.space(command.namespace), command.name)
    deleted = ActionDeleted(namespace=command.namespace, name=command.name, at_ms=context.now_ms)
    return Decision(Nothing(), (deleted,))


def decide_enable(state: State, command: EnableAction, context: Context) -> Decision:
    action = named_action(state.space(command.namespace), command.name)
    enabled = ActionEnabled(namespace=command.namespace, name=action.name, at_ms=context.now_ms)
    return Decision(Nothing(), () if action.enabled else (enabled,))


def decide_disable(state: State, command: DisableAction, context: Context) -> Decision:
    action = named_action(state.space(command.namespace), command.name)
    disabled = ActionDisabled(namespace=command.namespace, name=action.name, at_ms=context.now_ms)
    return Decision(Nothing(), (disabled,) if action.enabled else ())


def apply_stored(state: State, event: ModuleStored) -> None:
    state.modules[event.digest] = event.body


def apply_registered(state: State, event: ActionRegistered) -> None:
    space = state.space_made(event.namespace)
    known = space.actions.get(event.action.name) or space.deleted.get(event.action.name)
    space.actions[event.action.name] = event.action
    space.deleted.pop(event.action.name, None)
    if known is not None:
        state.let_go_of(known)
        fit(state, space, event.action.name)


def apply_deleted(state: State, event: ActionDeleted) -> None:
    space = state.spaces[event.namespace]
    action = space.actions.pop(event.name)
    space.departures.pop(event.name, None)
    if space.tallies.get(event.name, NO_RUNS).live:
        space.deleted[event.name] = replace(action, deleted_since=state.since())
    else:
        state.let_go_of(action)


def apply_enabled(state: State, event: ActionEnabled) -> None:
    actions = state.spaces[event.namespace].actions
    actions[event.name] = replace(
        actions[event.name], enabled=True, disabled_since=None, updated_at_ms=event.at_ms
    )


def apply_disabled(state: State, event: ActionDisabled) -> None:
    actions = state.spaces[event.namespace].actions
    actions[event.name] = replace(
        actions[event.name],
        enabled=False,
        disabled_since=state.since(),
        updated_at_ms=event.at_ms,
    )


def named_action(space: Space, name: ActionName) -> Action:
    action = space.actions.get(name)
    if action is None:
        raise NotFound(
            f"action {name!r} is not registered",
            code="action_not_found",
        )
    return action


def _check_version(command: RegisterAction, known: Action | None) -> None:
    version = known.version if known is not None else 0
    if command.if_version not in (None, version):
        raise Conflict(
            f"expected action {command.name!r} to have version {command.if_version}, "
            f"it has {version}: it was changed meanwhile",
            code="version_changed",
        )


def _limits(command: RegisterAction) -> ActionLimits | None:
    limits = command.limits
    if limits is None:
        return None
    if limits.concurrency_key and limits.concurrency_max is None:
        raise Invalid("concurrency_key says what to count, and needs concurrency_max")
    template = compile_template(limits.concurrency_key)
    for problem in template.errors:
        raise Invalid(f"concurrency_key: {problem}", code="invalid_template")
    for path in template.paths:
        if path.root is not Root.INPUT:
            raise Invalid(
                f"concurrency_key: expected paths into the input, as {{input.customer_id}}, "
                f"got {path.text!r}",
                code="invalid_template",
            )
    return limits


def _guest(state: State, command: RegisterAction) -> Guest | None:
    digest = command.wasm_digest
    if command.wasm_module is not None:
        digest = sha256(command.wasm_module).hexdigest()
    elif digest is None:
        return None
    elif digest not in state.modules:
        raise NotFound(f"no action has a module {digest!r}", code="module_not_found")
    return Guest(
        digest=digest,
        entrypoint=command.wasm_entrypoint,
        memory_pages=command.wasm_memory_limit,
    )


def _same_settings(known: Action, action: Action) -> bool:
    return known == replace(
        action,
        version=known.version,
        updated_at_ms=known.updated_at_ms,
    )
