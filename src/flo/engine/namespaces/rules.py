"""Rules of namespaces: create, delete.

A namespace comes into being with the first thing registered in it; `default` is always there. One
that was deleted and made again is a new one: its finished runs are filed under another name.
"""

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import GROUP, KEY, PIPELINE, PIPELINE_NODE, RUN, SCHEDULE, WORKFLOW
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.engine.state import Space, State
from flo.engine.workers.events import WorkerLeft
from flo.model.base import Nothing
from flo.model.errors import Conflict, NotFound
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.namespaces import CreateNamespace, DeleteNamespace, NamespaceMade


def decide_create(state: State, command: CreateNamespace, context: Context) -> Decision:
    if has_namespace(state, command.name):
        raise Conflict(f"namespace {command.name!r} exists", code="namespace_exists")
    created = NamespaceCreated(name=command.name, at_ms=context.now_ms)
    return Decision(NamespaceMade(name=command.name), (created,))


def decide_delete(state: State, command: DeleteNamespace, context: Context) -> Decision:
    space = named_namespace(state, command.name)
    if command.name == NAMESPACE_DEFAULT:
        raise Conflict("the namespace 'default' is always there", code="namespace_is_default")
    contents = (
        space.actions,
        space.runs,
        space.workers,
        space.streams,
        space.kv,
        space.workflows,
        space.pipelines,
        space.secrets,
    )
    if not command.force and any(contents):
        raise Conflict(
            f"namespace {command.name!r} has {len(space.actions)} actions, {len(space.runs)} live "
            f"runs, {len(space.workers)} workers, {len(space.streams)} streams, "
            f"{len(space.kv)} keys, {len(space.workflows)} workflows, "
            f"{len(space.pipelines.live)} pipelines and {len(space.secrets)} secrets: it is "
            "deleted, and all of them with it, only with force",
            code="namespace_not_empty",
        )
    return Decision(
        Nothing(),
        (NamespaceDeleted(name=command.name, at_ms=context.now_ms),),
        tuple(WorkerLeft(namespace=command.name, worker_id=one) for one in sorted(space.workers)),
    )


def apply_created(state: State, event: NamespaceCreated) -> None:
    state.space_made(event.name).created_at_ms = event.at_ms


def apply_deleted(state: State, event: NamespaceDeleted) -> None:
    space = state.spaces.pop(event.name)
    state.deletions[event.name] = state.deletions.get(event.name, 0) + 1
    for action in (*space.actions.values(), *space.deleted.values()):
        state.let_go_of(action)
    for run_id in space.runs:
        state.due.clear((RUN, event.name, run_id))
    for run_id in space.executions:
        state.due.clear((WORKFLOW, event.name, run_id))
    for workflow in space.schedules:
        state.due.clear((SCHEDULE, event.name, workflow))
    for key in space.kv:
        state.due.clear((KEY, event.name, key))
    for name, stream in space.streams.items():
        for group in stream.groups:
            state.due.clear((GROUP, event.name, name, group))
    for pipeline_id, pipeline in space.pipelines.live.items():
        state.due.clear((PIPELINE, event.name, pipeline_id))
        for node in pipeline.nodes:
            state.due.clear((PIPELINE_NODE, event.name, pipeline_id, node))
        state.journals.discard(pipeline.journal)
    state.journals.difference_update(space.pipelines.ended)


def has_namespace(state: State, name: Namespace) -> bool:
    return name == NAMESPACE_DEFAULT or name in state.spaces


def named_namespace(state: State, name: Namespace) -> Space:
    if not has_namespace(state, name):
        raise NotFound(f"namespace {name!r} does not exist", code="namespace_not_found")
    return state.space(name)
