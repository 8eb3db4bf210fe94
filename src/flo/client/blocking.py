"""The blocking twin of the client, for scripts.

Every method is the async one, run in a loop that lives in a thread of its own; so the signatures
are written once, in the async client.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from flo.client.actions import Actions
from flo.client.client import TIMEOUT_S_DEFAULT, Flo
from flo.client.events import Events
from flo.client.groups import ConsumerGroup
from flo.client.handles.execution import WorkflowHandle
from flo.client.handles.invocation import Invocation
from flo.client.handles.transaction import KvTransaction
from flo.client.kv import Kv
from flo.client.namespaces import Namespaces
from flo.client.plans import Plans
from flo.client.schedules import Schedules
from flo.client.streams import Streams
from flo.client.workers import Workers
from flo.client.workflows import Workflows
from flo.model.errors import Unavailable
from flo.model.ids import GroupName, Key, Namespace, RunId, StreamName
from flo.model.kv import Committed, Value
from flo.model.operation import Command, Query, R
from flo.model.runs import Accepted, RunResult, RunView

P = ParamSpec("P")
T = TypeVar("T")
Noun = TypeVar("Noun")


class LoopThread:
    """A running loop, for those who have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flo", daemon=True)
        self._thread.start()

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_closed()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.is_stopped:
            coroutine.close()
            raise Unavailable("the client is closed", code="closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:  # an interrupt of the caller must not leave the call behind
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Twin:
    """One noun of an async client, and the thread in which its calls run."""

    def __init__(self, thread: LoopThread, noun: Any) -> None:
        self._thread = thread
        self._noun = noun


def blocking(
    method: Callable[Concatenate[Noun, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Twin, P], T]:
    @wraps(method)
    def call(twin: Twin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return twin._thread.run(method(twin._noun, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[Noun, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Twin, P], Iterator[T]]:
    @wraps(method)
    def call(twin: Twin, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return _each(twin._thread, method(twin._noun, *args, **kwargs))

    return call


def _each(thread: LoopThread, generator: AsyncGenerator[T, None]) -> Iterator[T]:
    """What an async generator yields, one by one, until it ends or nobody listens any more."""
    try:
        while (found := thread.run(_next_of(generator))) is not None:
            yield found[0]
    finally:
        if not thread.is_stopped:
            thread.run(_close(generator))


async def _next_of(generator: AsyncGenerator[T, None]) -> tuple[T] | None:
    """The next one; None at the end."""
    async for one in generator:
        return (one,)
    return None


async def _close(generator: AsyncGenerator[Any, None]) -> None:
    await generator.aclose()


class BlockingInvocation(Twin):
    """What a blocking invoke gives back; see Invocation."""

    _noun: Invocation

    def __str__(self) -> str:
        return self.run_id

    def __repr__(self) -> str:
        return f"Blocking{self._noun!r}"

    @property
    def run_id(self) -> RunId:
        return self._noun.run_id

    @property
    def duplicate(self) -> bool:
        return self._noun.duplicate

    @property
    def inline(self) -> bool:
        return self._noun.inline

    def status(self) -> RunView:
        return self._thread.run(self._noun.status())

    def wait(self, timeout: float | None = None) -> RunResult:
        return self._thread.run(self._noun.wait(timeout))

    @overload
    def result(self, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    def result(self, type: Any = Any, timeout: float | None = None) -> Any: ...
    def result(self, type: Any = Any, timeout: float | None = None) -> Any:
        return self._thread.run(self._noun.result(type, timeout))

    def cancel(self, reason: str = "") -> Accepted:
        return self._thread.run(self._noun.cancel(reason))


def invoking(
    method: Callable[Concatenate[Actions, P], Coroutine[Any, Any, Invocation]],
) -> Callable[Concatenate[Twin, P], BlockingInvocation]:
    @wraps(method)
    def call(twin: Twin, /, *args: P.args, **kwargs: P.kwargs) -> BlockingInvocation:
        invocation = twin._thread.run(method(twin._noun, *args, **kwargs))
        return BlockingInvocation(twin._thread, invocation)

    return call


def invoking_many(
    method: Callable[Concatenate[Actions, P], Coroutine[Any, Any, list[Invocation]]],
) -> Callable[Concatenate[Twin, P], list[BlockingInvocation]]:
    @wraps(method)
    def call(twin: Twin, /, *args: P.args, **kwargs: P.kwargs) -> list[BlockingInvocation]:
        invocations = twin._thread.run(method(twin._noun, *args, **kwargs))
        return [BlockingInvocation(twin._thread, invocation) for invocation in invocations]

    return call


class BlockingActions(Twin):
    """See Actions."""

    register = blocking(Actions.register)
    invoke = invoking(Actions.invoke)
    invoke_many = invoking_many(Actions.invoke_many)
    invoke_commands = invoking_many(Actions.invoke_commands)
    status = blocking(Actions.status)
    wait = blocking(Actions.wait)
    cancel = blocking(Actions.cancel)
    dead = blocking(Actions.dead)
    requeue = blocking(Actions.requeue)
    purge = blocking(Actions.purge)
    get = blocking(Actions.get)
    list = blocking(Actions.list)
    runs = blocking(Actions.runs)
    enable = blocking(Actions.enable)
    disable = blocking(Actions.disable)
    delete = blocking(Actions.delete)

    @overload
    def result(self, run_id: RunId, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any: ...
    def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any:
        return self._thread.run(self._noun.result(run_id, type, timeout))


class BlockingWorkers(Twin):
    """See Workers."""

    register = blocking(Workers.register)
    heartbeat = blocking(Workers.heartbeat)
    claim = blocking(Workers.claim)
    complete = blocking(Workers.complete)
    fail = blocking(Workers.fail)
    touch = blocking(Workers.touch)
    await_notifications = blocking(Workers.await_notifications)
    drain = blocking(Workers.drain)
    deregister = blocking(Workers.deregister)
    get = blocking(Workers.get)
    list = blocking(Workers.list)


class BlockingConsumerGroup(Twin):
    """See ConsumerGroup."""

    _noun: ConsumerGroup

    def __repr__(self) -> str:
        return f"Blocking{self._noun!r}"

    @property
    def stream(self) -> StreamName:
        return self._noun.stream

    @property
    def name(self) -> GroupName:
        return self._noun.name

    create = blocking(ConsumerGroup.create)
    delete = blocking(ConsumerGroup.delete)
    join = blocking(ConsumerGroup.join)
    leave = blocking(ConsumerGroup.leave)
    read = blocking(ConsumerGroup.read)
    ack = blocking(ConsumerGroup.ack)
    nack = blocking(ConsumerGroup.nack)
    touch = blocking(ConsumerGroup.touch)
    claim = blocking(ConsumerGroup.claim)
    pending = blocking(ConsumerGroup.pending)
    info = blocking(ConsumerGroup.info)
    letters = blocking(ConsumerGroup.letters)
    requeue = blocking(ConsumerGroup.requeue)
    purge = blocking(ConsumerGroup.purge)


class BlockingStreams(Twin):
    """See Streams."""

    _noun: Streams

    create = blocking(Streams.create)
    alter = blocking(Streams.alter)
    delete = blocking(Streams.delete)
    append = blocking(Streams.append)
    append_many = blocking(Streams.append_many)
    read = blocking(Streams.read)
    follow = iterating(Streams.follow)
    trim = blocking(Streams.trim)
    groups = blocking(Streams.groups)
    info = blocking(Streams.info)
    list = blocking(Streams.list)

    def group(self, stream: StreamName, name: GroupName) -> BlockingConsumerGroup:
        """A consumer group of a stream, to be spoken to; this asks nobody anything."""
        return BlockingConsumerGroup(self._thread, self._noun.group(stream, name))


class BlockingKvTransaction(Twin):
    """See KvTransaction."""

    _noun: KvTransaction

    @property
    def result(self) -> Committed:
        return self._noun.result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()

    def get(self, key: Key) -> Value:
        return self._thread.run(self._noun.get(key))

    def put(self, key: Key, value: Any, *, ttl: float | None = None) -> None:
        self._noun.put(key, value, ttl=ttl)

    def delete(self, key: Key) -> None:
        self._noun.delete(key)

    def increment(self, key: Key, by: int = 1) -> None:
        self._noun.increment(key, by)

    def commit(self) -> Committed:
        return self._thread.run(self._noun.commit())


class BlockingKv(Twin):
    """See Kv."""

    _noun: Kv

    get = blocking(Kv.get)
    wait = blocking(Kv.wait)
    get_many = blocking(Kv.get_many)
    exists = blocking(Kv.exists)
    put = blocking(Kv.put)
    delete = blocking(Kv.delete)
    increment = blocking(Kv.increment)
    touch = blocking(Kv.touch)
    persist = blocking(Kv.persist)
    scan = blocking(Kv.scan)
    keys = iterating(Kv.keys)
    history = blocking(Kv.history)
    get_json = blocking(Kv.get_json)
    set_json = blocking(Kv.set_json)
    delete_json = blocking(Kv.delete_json)
    transact = blocking(Kv.transact)
    begin = blocking(Kv.begin)
    commit = blocking(Kv.commit)
    rollback = blocking(Kv.rollback)

    def transaction(self) -> BlockingKvTransaction:
        """Several reads and changes that happen together or not at all; see Kv.transaction."""
        return BlockingKvTransaction(self._thread, self._noun.transaction())


class BlockingNamespaces(Twin):
    """See Namespaces."""

    create = blocking(Namespaces.create)
    delete = blocking(Namespaces.delete)
    get = blocking(Namespaces.get)
    list = blocking(Namespaces.list)


class BlockingWorkflowHandle(Twin):
    """What a blocking start gives back; see WorkflowHandle."""

    _noun: WorkflowHandle

    def __str__(self) -> str:
        return self.run_id

    def __repr__(self) -> str:
        return f"Blocking{self._noun!r}"

    @property
    def run_id(self) -> RunId:
        return self._noun.run_id

    @property
    def duplicate(self) -> bool:
        return self._noun.duplicate

    status = blocking(WorkflowHandle.status)
    wait = blocking(WorkflowHandle.wait)
    signal = blocking(WorkflowHandle.signal)
    cancel = blocking(WorkflowHandle.cancel)
    pause = blocking(WorkflowHandle.pause)
    resume = blocking(WorkflowHandle.resume)
    explain = blocking(WorkflowHandle.explain)
    history = iterating(WorkflowHandle.history)

    @overload
    def result(self, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    def result(self, type: Any = Any, timeout: float | None = None) -> Any: ...
    def result(self, type: Any = Any, timeout: float | None = None) -> Any:
        return self._thread.run(self._noun.result(type, timeout))


def starting(
    method: Callable[Concatenate[Noun, P], Coroutine[Any, Any, WorkflowHandle]],
) -> Callable[Concatenate[Twin, P], BlockingWorkflowHandle]:
    @wraps(method)
    def call(twin: Twin, /, *args: P.args, **kwargs: P.kwargs) -> BlockingWorkflowHandle:
        handle = twin._thread.run(method(twin._noun, *args, **kwargs))
        return BlockingWorkflowHandle(twin._thread, handle)

    return call


class BlockingWorkflows(Twin):
    """See Workflows."""

    create = blocking(Workflows.create)
    validate = blocking(Workflows.validate)
    get = blocking(Workflows.get)
    list = blocking(Workflows.list)
    delete = blocking(Workflows.delete)
    enable = blocking(Workflows.enable)
    disable = blocking(Workflows.disable)
    start = starting(Workflows.start)
    signal = blocking(Workflows.signal)
    cancel = blocking(Workflows.cancel)
    pause = blocking(Workflows.pause)
    resume = blocking(Workflows.resume)
    rerun = starting(Workflows.rerun)
    status = blocking(Workflows.status)
    wait = blocking(Workflows.wait)
    runs = blocking(Workflows.runs)
    history = blocking(Workflows.history)
    explain = blocking(Workflows.explain)

    def run(self, run_id: RunId) -> BlockingWorkflowHandle:
        return BlockingWorkflowHandle(self._thread, self._noun.run(run_id))

    @overload
    def result(self, run_id: RunId, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any: ...
    def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any:
        return self._thread.run(self._noun.result(run_id, type, timeout))


class BlockingSchedules(Twin):
    """See Schedules."""

    get = blocking(Schedules.get)
    list = blocking(Schedules.list)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    run_now = starting(Schedules.run_now)


class BlockingPlans(Twin):
    """See Plans."""

    get = blocking(Plans.get)


class BlockingEvents(Twin):
    """See Events."""

    emit = blocking(Events.emit)


class BlockingFlo:
    """The client without async; the arguments are those of Flo.

        with BlockingFlo() as flo:
            print(flo.actions.invoke("send-email", {"to": "alice@example.com"}).result())

    It may be used from several threads. Without `with`, call close() when done.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: Namespace | None = None,
        timeout: float = TIMEOUT_S_DEFAULT,
    ) -> None:
        self._flo = Flo(address, namespace=namespace, timeout=timeout)
        self._thread = LoopThread()
        self.address = self._flo.address
        self.namespace = self._flo.namespace
        self.actions = BlockingActions(self._thread, self._flo.actions)
        self.workers = BlockingWorkers(self._thread, self._flo.workers)
        self.workflows = BlockingWorkflows(self._thread, self._flo.workflows)
        self.schedules = BlockingSchedules(self._thread, self._flo.schedules)
        self.plans = BlockingPlans(self._thread, self._flo.plans)
        self.events = BlockingEvents(self._thread, self._flo.events)
        self.streams = BlockingStreams(self._thread, self._flo.streams)
        self.kv = BlockingKv(self._thread, self._flo.kv)
        self.namespaces = BlockingNamespaces(self._thread, self._flo.namespaces)

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect now; Unavailable if the server cannot be reached."""
        self._thread.run(self._flo.connect())

    def close(self) -> None:
        if not self._thread.is_stopped:
            self._thread.run(self._flo.close())
            self._thread.stop()

    def call(self, message: Command[R] | Query[R]) -> R:
        """Send any operation, in the namespace of this client."""
        return self._thread.run(self._flo.call(message))

    def ping(self) -> None:
        self._thread.run(self._flo.ping())
