"""Actions and their runs: register, invoke, wait, cancel, list, delete; dead letters."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat, zip_longest
from math import inf
from typing import Any, TypeVar, overload

from flo.client.arguments.choices import one_if_any
from flo.client.dead_letters import change_dead
from flo.client.handles.invocation import Invocation, result_of
from flo.client.noun import Noun
from flo.client.payloads.payload import encode_payload
from flo.client.payloads.schema import Schema, schema_of
from flo.client.session.session import Session
from flo.client.session.tracing import calling
from flo.client.session.waits import Waits
from flo.model.actions import (
    ENTRYPOINT_DEFAULT,
    MAX_RETRIES_DEFAULT,
    MEMORY_PAGES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
    ActionPage,
    ActionView,
    DeleteAction,
    DisableAction,
    EnableAction,
    GetAction,
    ListActions,
    RegisterAction,
    Registered,
)
from flo.model.errors import FloError, Invalid, error_of
from flo.model.ids import LIST_LIMIT_DEFAULT, ActionName, Labels, Namespace, RunId
from flo.model.runs import (
    PRIORITY_DEFAULT,
    Accepted,
    Cancel,
    ExplainRun,
    GetRun,
    Invoke,
    Invoked,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunExplanation,
    RunPage,
    RunResult,
    RunStatus,
    RunView,
)

T = TypeVar("T")

INVOKES_IN_FLIGHT_MAX = 10_000


class Actions(Noun):
    def __init__(self, session: Session, namespace: Namespace) -> None:
        super().__init__(session, namespace)
        self._waits = Waits(session, namespace)

    async def register(
        self,
        name: ActionName,
        *,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
        max_retries: int = MAX_RETRIES_DEFAULT,
        retry_delay_ms: int = RETRY_DELAY_MS_DEFAULT,
        description: str = "",
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
        if_changed: bool = False,
        wasm: bytes | None = None,
        wasm_entrypoint: str = ENTRYPOINT_DEFAULT,
        wasm_memory_limit: int = MEMORY_PAGES_DEFAULT,
        limits: ActionLimits | None = None,
        if_version: int | None = None,
        secrets: Sequence[str] = (),
    ) -> Registered:
        """Create the action or replace its settings; `if_changed` leaves equal ones alone.

        A schema is a JSON Schema, or a type that has one: inputs are checked when a run is
        invoked, outputs when it is completed. With the bytes of a WebAssembly module in `wasm`,
        the server performs the action itself; its memory is limited in pages of 64 KB. `limits`
        say how many runs may be under way at a time, and how many may begin in a while. With
        `if_version` the action is left alone, and Conflict raised, if it has another version.
        Workers are given the values of these `secrets` with each task.
        """
        return await self._call(
            RegisterAction(
                name=name,
                timeout_ms=timeout_ms,
                max_retries=max_retries,
                retry_delay_ms=retry_delay_ms,
                description=description,
                input_schema=schema_of(input_schema, "input_schema"),
                output_schema=schema_of(output_schema, "output_schema"),
                if_changed=if_changed,
                wasm_module=wasm,
                wasm_entrypoint=wasm_entrypoint,
                wasm_memory_limit=wasm_memory_limit,
                limits=limits,
                if_version=if_version,
                secrets=list(secrets),
            )
        )

    async def invoke(
        self,
        name: ActionName,
        input: Any = None,
        *,
        priority: int = PRIORITY_DEFAULT,
        delay_ms: int = 0,
        idempotency_key: str | None = None,
        labels: Labels | None = None,
        subject: str | None = None,
        wait: bool | None = None,
    ) -> Invocation:
        """Queue a run. With an `idempotency_key` it is repeated safely if the connection breaks.

        A WebAssembly action has ended when this returns, unless `wait` is False or there is a
        delay; with `wait` every action has. `subject` says whom the payloads are about.
        """
        with calling("invoke", name) as traced:
            invoked = await self._call(
                Invoke(
                    action=name,
                    input=encode_payload(input, "input"),
                    priority=priority,
                    delay_ms=delay_ms,
                    idempotency_key=idempotency_key,
                    labels=labels,
                    subject=subject,
                    trace=traced.trace,
                )
            )
            traced.made(invoked.run_id)
        if wait is None:
            wait = invoked.inline and not delay_ms
        ended = await self.wait(invoked.run_id) if wait else None
        return Invocation(self, invoked.run_id, invoked.duplicate, invoked.inline, ended)

    async def invoke_many(
        self,
        name: ActionName,
        inputs: Iterable[Any],
        *,
        priority: int = PRIORITY_DEFAULT,
        delay_ms: int = 0,
        idempotency_keys: Iterable[str] | None = None,
        labels: Labels | None = None,
        subject: str | None = None,
    ) -> list[Invocation]:
        """Queue one run for every input, in order, in as few frames as they fit into.

        It waits for none of them.

        With `idempotency_keys`, one for every input, they are repeated safely if the connection
        breaks.

        Each is accepted or refused on its own. If any was refused, the error of the first is
        raised after all have been answered; its details hold `run_ids` (one for every input,
        None where there is no run) and `refused` (index to message).
        """
        with calling("invoke_many", name) as traced:
            return await self.invoke_commands(
                Invoke(
                    action=name,
                    input=encode_payload(input, "input"),
                    namespace=self._namespace,
                    priority=priority,
                    delay_ms=delay_ms,
                    idempotency_key=key,
                    labels=labels,
                    subject=subject,
                    trace=traced.trace,
                )
                for input, key in _with_keys(inputs, idempotency_keys)
            )

    async def invoke_commands(self, commands: Iterable[Invoke]) -> list[Invocation]:
        """Like invoke_many, for commands that differ in more than their input.

        Each goes to the namespace it names itself.
        """
        rest = iter(commands)
        answers: list[Invoked | BaseException] = []
        while window := list(islice(rest, INVOKES_IN_FLIGHT_MAX)):
            calls = map(self._session.call, window)
            answers += await asyncio.gather(*calls, return_exceptions=True)
        invocations = [
            Invocation(self, answer.run_id, answer.duplicate, answer.inline)
            for answer in answers
            if isinstance(answer, Invoked)
        ]
        if len(invocations) < len(answers):
            raise _some_refused(answers)
        return invocations

    async def status(self, run_id: RunId) -> RunView:
        return await self._call(GetRun(run_id=run_id))

    async def explain(self, run_id: RunId) -> RunExplanation:
        """Why a run is where it is: every cause, when it changes by itself, and what would help."""
        return await self._call(ExplainRun(run_id=run_id))

    async def wait(self, run_id: RunId, timeout: float | None = None) -> RunResult:
        """How the run has ended, once it has; TimedOut if it takes more than `timeout` seconds."""
        return await self._waits.wait(run_id, inf if timeout is None else timeout)

    @overload
    async def result(self, run_id: RunId, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    async def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any: ...
    async def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any:
        """The output of the run once it has ended, decoded; RunUnsuccessful if there is none."""
        return result_of(await self.wait(run_id, timeout), type)

    async def cancel(self, run_id: RunId, reason: str = "") -> Accepted:
        """End a run that has not ended; the worker that holds it is told at once."""
        return await self._call(Cancel(run_id=run_id, reason=reason))

    async def dead(
        self, name: ActionName, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> RunPage:
        """The dead letters of one action, the newest first."""
        return await self._call(ListDeadRuns(action=name, limit=limit, cursor=cursor))

    async def requeue(
        self, name: ActionName, run_ids: Iterable[RunId] | None = None
    ) -> list[RunId]:
        """Queue dead letters again, with all their retries: these, or all there are."""
        return await change_dead(self, RequeueDeadRuns(action=name), run_ids)

    async def purge(self, name: ActionName, run_ids: Iterable[RunId] | None = None) -> list[RunId]:
        """Delete dead letters: these, or all there are."""
        return await change_dead(self, PurgeDeadRuns(action=name), run_ids)

    async def get(self, name: ActionName) -> ActionView:
        return await self._call(GetAction(name=name))

    async def list(self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None) -> ActionPage:
        return await self._call(ListActions(limit=limit, cursor=cursor))

    async def runs(
        self,
        name: ActionName | None = None,
        status: RunStatus | str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        subject: str | None = None,
    ) -> RunPage:
        """The runs of an action, or of all, or those about a subject, the newest first."""
        return await self._call(
            ListRuns(
                action=name,
                status=one_if_any(RunStatus, status, "status"),
                limit=limit,
                cursor=cursor,
                subject=subject,
            )
        )

    async def enable(self, name: ActionName) -> None:
        await self._call(EnableAction(name=name))

    async def disable(self, name: ActionName) -> None:
        """Refuse new invocations; runs that are there already go on."""
        await self._call(DisableAction(name=name))

    async def delete(self, name: ActionName) -> None:
        """Remove the action; its unfinished runs go on to their end, new ones are refused."""
        await self._call(DeleteAction(name=name))


_MISSING: Any = object()


def _with_keys(
    inputs: Iterable[Any], keys: Iterable[str] | None
) -> Iterable[tuple[Any, str | None]]:
    return zip(inputs, repeat(None)) if keys is None else _paired(inputs, keys)


def _paired(inputs: Iterable[Any], keys: Iterable[str]) -> Iterator[tuple[Any, str]]:
    for input, key in zip_longest(inputs, keys, fillvalue=_MISSING):
        if input is _MISSING or key is _MISSING:
            more = "inputs" if key is _MISSING else "idempotency_keys"
            raise Invalid(f"expected as many idempotency_keys as inputs, got more {more}")
        yield input, key


def _some_refused(answers: list[Invoked | BaseException]) -> BaseException:
    refused = {
        index: answer for index, answer in enumerate(answers) if isinstance(answer, BaseException)
    }
    index, first = next(iter(refused.items()))
    if not isinstance(first, FloError):
        return first
    return error_of(
        first.kind,
        first.code,
        f"{len(refused)} of {len(answers)} were not accepted; the first, at index {index}: "
        f"{first.message}",
        {
            "run_ids": [getattr(answer, "run_id", None) for answer in answers],
            "refused": {index: str(error) for index, error in refused.items()},
        },
    )
