"""Run blocks without a server: one phase of one, or several as the steps of a workflow would.

    ran = await run_block(SetVlan, {"port": 3, "vlan": 7}, {"devices": [{"id": 7}]})
    assert ran.data == {"previous": 1}

    engine = FakeEngine(SetVlan, Reload, devices=[{"id": 7, "vlan": 1}])
    saga = await engine.run((SetVlan, {"vlan": 7}), (Reload, {"device": 7}))
    assert saga.state == "failed_safe"          # Reload has failed, and SetVlan was undone

It is what a worker does with its jobs: the same reading of parameters, the same error boundaries.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from flo.model.blocks.jobs import JobContext, JobInput, JobResult, LockHeld
from flo.model.blocks.names import JobType, LockMode
from flo.model.errors import NotFound
from flo.worker.blocks.block import DeclaredBlock, declaration_of
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.phases import perform

SagaState = Literal["completed", "failed_safe", "failed_unsafe"]

RUN_ID = "wfrun-1"


class BlockRun(NamedTuple):
    """What a phase has reported. `updates` is what became of entities, `locks` the keys that
    `acquire` wants, `progress` what the block has said of itself.
    """

    success: bool
    message: str
    code: str | None
    data: Any
    locks: list[str]
    acquires: list[dict[str, Any]]
    updates: list[dict[str, Any]]
    progress: list[str]


async def run_block(
    block: Any,
    params: Mapping[str, Any] | None = None,
    context: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    *,
    phase: JobType | str = JobType.EXECUTE,
    result: Any = None,
    entity_id: int | None = None,
    locks: Mapping[str, int] | None = None,
    attempt: int = 1,
) -> BlockRun:
    """One phase of a block: "execute", "acquire" or "rollback".

    `context` has the documents of entities under "devices", "groups" and "interfaces"; `result` is
    what `rollback` is given of a former run, `locks` the keys that are held, with their tokens.
    """
    declared = declaration_of(block)
    given = context or {}
    job = JobInput(
        job=JobType(phase),
        block=declared.id,
        run_id=RUN_ID,
        step=declared.spec.name,
        parameters=dict(params or {}),
        context=JobContext(
            devices=_copied(given.get("devices", ())),
            deviceGroups=_copied(given.get("groups", ())),
            interfaces=_copied(given.get("interfaces", ())),
        ),
        run_on=declared.spec.run_on,
        entity_id=entity_id,
        locks=[_held(key, token) for key, token in (locks or {}).items()],
        result=result,
        idempotency_key=f"{RUN_ID}/{declared.spec.name}",
    )
    block_context = BlockContext(job, attempt)
    end = await perform(declared, job, block_context)
    return _ran(end.result, block_context)


class FakeJob(NamedTuple):
    """A job that was done: its type, the block, and what came of it."""

    type: JobType
    block: str
    ran: BlockRun


class Saga(NamedTuple):
    """How the steps have ended: `jobs` in their order, `locks` that were held meanwhile, and the
    blocks of steps that were done and could not be undone.
    """

    state: SagaState
    jobs: list[FakeJob]
    locks: list[str]
    left: list[str]

    def named(self, type: JobType | str) -> list[str]:
        """The blocks whose jobs of this type were done, in their order."""
        return [job.block for job in self.jobs if job.type == type]


class FakeEngine:
    """Does for some blocks what the server does for the steps of a workflow, one after the other:
    ACQUIRE for all of them, then EXECUTE for each; when one fails, ROLLBACK for those that may have
    had an effect, the latest first.

    `devices`, `groups` and `interfaces` are the documents of entities; what blocks change of them
    is there after a run that has completed.
    """

    def __init__(
        self,
        *blocks: Any,
        devices: Sequence[Mapping[str, Any]] = (),
        groups: Sequence[Mapping[str, Any]] = (),
        interfaces: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._blocks = [declaration_of(one) for one in blocks]
        self.devices = _copied(devices)
        self.groups = _copied(groups)
        self.interfaces = _copied(interfaces)
        self._tokens = 0

    async def run(
        self, *steps: tuple[Any, Mapping[str, Any]], entity_id: int | None = None
    ) -> Saga:
        """Run blocks, or `package/name:1.2` of those there are, with their parameters."""
        chosen = [(self._block(one), params) for one, params in steps]
        jobs: list[FakeJob] = []
        locks: dict[str, int] = {}
        for declared, params in chosen:
            ran = await self._do(jobs, declared, JobType.ACQUIRE, params, entity_id, {})
            if not ran.success:
                return Saga("failed_safe", jobs, [], [])
            for key in sorted(ran.locks):
                self._tokens += 1
                locks.setdefault(key, self._tokens)
        done: list[tuple[DeclaredBlock, Mapping[str, Any], BlockRun]] = []
        for declared, params in chosen:
            ran = await self._do(jobs, declared, JobType.EXECUTE, params, entity_id, locks)
            done.append((declared, params, ran))
            if not ran.success:
                left = await self._undo(jobs, done, entity_id, locks)
                state: SagaState = "failed_unsafe" if left else "failed_safe"
                return Saga(state, jobs, sorted(locks), left)
        for _, _, ran in done:
            self._apply(ran.updates)
        return Saga("completed", jobs, sorted(locks), [])

    async def _undo(
        self,
        jobs: list[FakeJob],
        done: list[tuple[DeclaredBlock, Mapping[str, Any], BlockRun]],
        entity_id: int | None,
        locks: dict[str, int],
    ) -> list[str]:
        """Undo them, the latest first, as far as that goes; those that are left."""
        for index, (declared, params, ran) in reversed([*enumerate(done)]):
            if declared.spec.pure:
                continue
            undone = (
                declared.spec.reversible
                and (
                    await self._do(
                        jobs, declared, JobType.ROLLBACK, params, entity_id, locks, result=ran.data
                    )
                ).success
            )
            if not undone:
                return [one.id for one, _, _ in done[: index + 1] if not one.spec.pure]
        return []

    async def _do(
        self,
        jobs: list[FakeJob],
        declared: DeclaredBlock,
        type: JobType,
        params: Mapping[str, Any],
        entity_id: int | None,
        locks: dict[str, int],
        result: Any = None,
    ) -> BlockRun:
        documents = {
            "devices": self.devices,
            "groups": self.groups,
            "interfaces": self.interfaces,
        }
        ran = await run_block(
            declared,
            params,
            documents if type is not JobType.ACQUIRE else None,
            phase=type,
            result=result,
            entity_id=entity_id,
            locks=locks,
        )
        jobs.append(FakeJob(type, declared.id, ran))
        return ran

    def _block(self, wanted: Any) -> DeclaredBlock:
        return (
            find_block(self._blocks, wanted) if isinstance(wanted, str) else declaration_of(wanted)
        )

    def _apply(self, updates: list[dict[str, Any]]) -> None:
        for update in updates:
            documents = {
                "device": self.devices,
                "group": self.groups,
                "interface": self.interfaces,
            }[update["entity"]]
            match update["operation"]:
                case "create":
                    documents.append({"id": update["id"], **update["data"]})
                case "patch":
                    (one,) = (one for one in documents if one["id"] == update["id"])
                    one[update["path"]] = update["value"]
                case _:
                    documents[:] = [one for one in documents if one["id"] != update["id"]]


def find_block(blocks: Iterable[DeclaredBlock], reference: str) -> DeclaredBlock:
    """The block of this version, or the highest one that begins so; NotFound if there is none."""
    blocks = list(blocks)
    found = [one for one in blocks if one.id == reference or one.id.startswith(f"{reference}.")]
    if not found:
        known = ", ".join(one.id for one in blocks) or "there are none"
        raise NotFound(
            f"block {reference!r} does not exist; those that do: {known}", code="block_not_found"
        )
    return max(found, key=lambda one: tuple(map(int, one.spec.version.split("."))))


def _ran(result: JobResult, context: BlockContext) -> BlockRun:
    return BlockRun(
        success=result.success,
        message=result.message,
        code=result.code,
        data=result.data,
        locks=[lock.key for lock in result.locks or ()],
        acquires=result.acquires or [],
        updates=result.updates or [],
        progress=context.progress_notes,
    )


def _held(key: str, token: int) -> LockHeld:
    return LockHeld(key=key, mode=LockMode.EXCLUSIVE, token=token)


def _copied(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [copy.deepcopy(dict(document)) for document in documents]
