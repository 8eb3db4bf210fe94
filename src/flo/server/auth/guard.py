"""Guard: the way in for one identity. What it may not do never reaches the shard.

message ──▸ allowed ──────────────▸ router
        ├─▸ forbidden: refused
        ├─▸ hidden: answered as by a server on which there is nothing
        ├─▸ to be looked up ──▸ router: what is it? ──▸ allowed, or hidden
        └─▸ a list ──▸ router ──▸ without what may not be seen
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import msgspec

from flo.engine.context import Context
from flo.engine.machine import decide
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Query
from flo.model.errors import FloError, NotFound, Unexpected
from flo.model.executions.history import GetHistory
from flo.model.namespaces import GetNamespace, ListNamespaces
from flo.model.pipelines.views import PipelineView
from flo.model.runs import RunView
from flo.model.storage.caller import SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.model.workflows import WorkflowRunView
from flo.server.auth.identity import Identity
from flo.server.auth.rules import Ruling, forbidden, freely_allowed, scope_keys, verdict_on
from flo.server.auth.targets import CURSORS_ARE_NAMES, LISTED, TARGETS
from flo.shard.submission import Answer, Done, Submission

NOWHERE = "~"
"""No namespace is called so: there is nothing in it."""
KNOWN_MAX = 10_000
PAGES_MAX = 100
"""So many pages of a list are gone through at once for one that has something to show, unless its
cursor is a name: that of a hidden one must not be told."""


class Handler(Protocol):
    """Takes messages, and answers them."""

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission: ...

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message: ...


class AccessWatcher(Protocol):
    """Hears what was refused."""

    def refused(self, caller: Caller, message: Message, error: FloError) -> None: ...


class Registry(Protocol):
    """Knows who is let in."""

    tasks: dict[asyncio.Task[None], None]
    """Those that answer what could not be answered at once; they outlive a connection."""

    def problem_of(self, identity: Identity) -> FloError | None:
        """Why it is no longer let in."""
        ...

    def check_grant(self, identity: Identity, message: Message) -> None:
        """Refuse to give away more than one has."""
        ...

    def tokens_changed(self) -> None:
        """Some may not be valid any more."""
        ...


class Guard:
    def __init__(
        self,
        handler: Handler,
        identity: Identity,
        registry: Registry,
        watcher: AccessWatcher,
        now_ms: Callable[[], int],
    ) -> None:
        self.identity = identity
        self._handler = handler
        self._registry = registry
        self._problem = registry.problem_of
        self._watcher = watcher
        self._now_ms = now_ms
        self._free = freely_allowed(identity)
        self._key_of = scope_keys(identity)
        self._known: set[Hashable] = set()
        """The namespaces, or namespaces and names, that are in its scope."""

    def may(self, message: Message) -> bool:
        return self._problem(self.identity) is None and (
            type(message) in self._free or verdict_on(self.identity, message) is Ruling.ALLOWED
        )

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission:
        problem = self._problem(self.identity)
        if problem is None and self._are_allowed(messages):
            return self._handler.submit(messages, done, caller, keys)
        submission = Submission(messages, done, caller, keys)
        if problem is not None:
            self._tell(caller, messages, problem)
            submission.refuse(problem)
            return submission
        task = asyncio.get_running_loop().create_task(self._answer(submission))
        self._registry.tasks[task] = None
        task.add_done_callback(self._registry.tasks.pop)
        return submission

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message:
        if (problem := self._problem(self.identity)) is not None:
            self._tell(caller, [message], problem)
            raise problem
        if self._are_allowed([message]):
            return await self._handler.ask(message, caller, keys)
        try:
            return await self._ask(message, caller, keys)
        except FloError as error:
            self._tell(caller, [message], error)
            raise

    def _are_allowed(self, messages: Sequence[Message]) -> bool:
        """All of a batch are of one kind. What was allowed once need not be thought about again."""
        kind = type(messages[0])
        if kind in self._free:
            return True
        key_of = self._key_of.get(kind)
        if key_of is not None and all(key_of(message) in self._known for message in messages):
            return True
        for message in messages:
            if verdict_on(self.identity, message) is not Ruling.ALLOWED:
                return False
            if key_of is not None and len(self._known) < KNOWN_MAX:
                self._known.add(key_of(message))
        return True

    async def _answer(self, submission: Submission) -> None:
        """One after the other, each on its own."""
        answers: list[Answer] = []
        keys = submission.keys
        for index, message in enumerate(submission.messages):
            try:
                answers.append(
                    await self.ask(message, submission.caller, keys and keys.slice(index, 1))
                )
            except FloError as refusal:
                answers.append(refusal)
            except Exception as error:  # our mistake; whoever asked must not wait for ever
                answers.append(Unexpected(f"it could not be answered: {error!r}"))
        submission.answer(answers)

    async def _ask(self, message: Message, caller: Caller, keys: RequestKeys | None) -> Message:
        match verdict_on(self.identity, message):
            case Ruling.FORBIDDEN:
                raise forbidden(self.identity, message)
            case Ruling.HIDDEN:
                return await self._nothing_there(message, caller)
            case Ruling.LOOKED_UP if not await self._is_visible(message):
                return await self._nothing_there(message, caller)
            case Ruling.FILTERED:
                return await self._filtered(message, caller)
            case Ruling.GRANTS:
                self._registry.check_grant(self.identity, message)
                reply = await self._handler.ask(message, caller, keys)
                self._registry.tokens_changed()
                return reply
            case _:
                pass
        return await self._handler.ask(message, caller, keys)

    async def _nothing_there(self, message: Message, caller: Caller) -> Message:
        """What is answered where there is nothing: a query by an empty namespace, a command by the
        rules on an empty state. One that would make something there is refused."""
        if isinstance(message, GetNamespace):
            raise NotFound(f"namespace {message.name!r} does not exist", code="namespace_not_found")
        if isinstance(message, Query):
            elsewhere = msgspec.structs.replace(message, namespace=NOWHERE)
            return await self._handler.ask(elsewhere, caller)
        now_ms = self._now_ms()
        decide(State(), message, Context(now_ms, lambda: 0.5, VolatileState(now_ms)))
        raise forbidden(self.identity, message)

    async def _is_visible(self, message: Message) -> bool:
        """Whether all that it is about by ids may be seen; what is not there may be asked for."""
        target = TARGETS[type(message)]
        assert target.ids is not None
        assert target.found_by is not None
        ids = getattr(message, target.ids)
        namespace = getattr(message, target.namespace or "namespace")
        for one in [ids] if isinstance(ids, str) else ids:
            field = "id" if target.ids == "id" else "run_id"
            query = target.found_by(**{field: one, "namespace": namespace})
            try:
                found = await self._handler.ask(query)
            except NotFound:
                continue
            if not await self._shows(message, found):
                return False
        return True

    async def _shows(self, message: Message, found: Any) -> bool:
        """Whether what an id stands for may be seen: it has a name, and somebody has begun it."""
        if not self.identity.names.allows(_name_found(message, found)):
            return False
        if DECLARED[type(message)].permission in self.identity.permissions:
            return True
        by = found.by if isinstance(found, RunView) else await self._starter(found)
        return (by or "").partition(" ")[2] == self.identity.actor

    async def _starter(self, found: Any) -> str | None:
        """Who has started a workflow run: its history says so first."""
        query = GetHistory(run_id=found.run_id, namespace=found.namespace, limit=1)
        history: Any = await self._handler.ask(query)
        return next((one.by for one in history.items), None)

    async def _filtered(self, query: Any, caller: Caller) -> Message:
        """A page of what may be seen; pages with nothing of that are passed over."""
        has_names = type(query) in CURSORS_ARE_NAMES
        pages = 0
        while True:
            page: Any = await self._handler.ask(query, caller)
            items = [item for item in page.items if self._lists(query, item)]
            pages += 1
            if items or page.cursor is None or (pages >= PAGES_MAX and not has_names):
                break
            query = msgspec.structs.replace(query, cursor=page.cursor)
        cursor = page.cursor
        if cursor is not None and has_names:
            cursor = _name_of(query, items[-1])
        filtered: Message = msgspec.structs.replace(page, items=items, cursor=cursor)
        return filtered

    def _lists(self, query: Message, item: Any) -> bool:
        is_of_namespaces = isinstance(query, ListNamespaces)
        scope = self.identity.namespaces if is_of_namespaces else self.identity.names
        return scope.allows(_name_of(query, item))

    def _tell(self, caller: Caller, messages: Sequence[Message], error: FloError) -> None:
        for message in messages:
            self._watcher.refused(caller, message, error)


def _name_of(query: Message, item: Any) -> str:
    return LISTED[type(query)](item)


def _name_found(message: Message, found: Any) -> str:
    """The name of what was found: an action, a workflow, a stored graph, or the role of a node."""
    if isinstance(found, WorkflowRunView):
        return found.workflow
    if isinstance(found, RunView):
        return found.action
    assert isinstance(found, PipelineView)
    node = getattr(message, "node", None)
    if node is not None and hasattr(message, "epoch"):
        return next((one.type for one in found.nodes if one.node_id == node), "")
    return found.graph_name or ""
