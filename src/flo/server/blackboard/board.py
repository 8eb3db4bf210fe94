"""What a neops worker asks, as commands: registration, polls and results.

    register      RegisterWorker                       blocks    RegisterBlocks, RegisterWorker
    ping          Heartbeat                            poll      LoseClaims, Claim
    unregister    DeregisterWorker                     result    GetJob, Complete

A poll of a worker proves that it has no job in hand: it polls and executes in one sequence. What it
was given before, and has not reported, is lost.
"""

from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import structlog
from litestar import Request

from flo.compat.neops.blocks import RegisterBlockBody
from flo.compat.neops.body import whole
from flo.compat.neops.jobs import JobToGive, PollBody, ResultBody, job_answer, problem_of
from flo.compat.neops.updates import stored_updates
from flo.compat.neops.workers import RegisterWorkerBody
from flo.engine.workers.presence import LoseClaims
from flo.model.blocks.blocks import BlockDeclaration, BlockType, RegisterBlocks, RunOn
from flo.model.blocks.jobs import GetJob, JobInput, JobResult
from flo.model.blocks.names import JobType, job_action, job_id_of, parse_job_action, parse_job_id
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import ActionName, Namespace, WorkerId
from flo.model.runs import Claim, Complete, Fail, Task
from flo.model.storage.caller import SERVER
from flo.model.workers import (
    DeregisterWorker,
    GetWorker,
    Heartbeat,
    RegisterWorker,
    WorkerView,
)
from flo.server.blackboard.pulse import WorkerPulse
from flo.server.http.gateway import Backend, EngineGateway

HOLD_MS = 3_000
"""How long a poll may wait for a job: a worker that is told to stop leaves only after it."""
TIMEOUT_MS = 720_000
"""The lease of a job: longer than a worker tries to push its result."""
UNFIT_PER_POLL_MAX = 100
METADATA = "blackboard"
"""What the metadata of a worker that came through this door has."""
UNFIT_CODE = "invalid_job"

_logger = structlog.get_logger("flo.blackboard")
_decode_input = msgspec.json.Decoder(JobInput).decode
_encode = msgspec.json.Encoder().encode


class Blackboard(NamedTuple):
    """What the calls of this door share."""

    engine: Backend
    pulse: WorkerPulse
    namespace: Namespace
    jobs_max: int = 1

    # ── workers ──

    async def register(self, gateway: EngineGateway, body: RegisterWorkerBody) -> WorkerId:
        """A registration always makes another worker."""
        worker_id = str(uuid4())
        about = {"version": body.version, "name": body.name, "ipAddress": body.ip_address}
        await gateway.ask(
            RegisterWorker(
                processes=[],
                worker_id=worker_id,
                namespace=self.namespace,
                max_concurrency=self.jobs_max,
                machine_id=body.ip_address,
                metadata={METADATA: about},
                incarnation=worker_id,
            )
        )
        self.pulse.heard(worker_id)
        return worker_id

    async def ping(self, gateway: EngineGateway, worker_id: WorkerId) -> None:
        await gateway.ask(Heartbeat(worker_id=worker_id, namespace=self.namespace))
        self.pulse.heard(worker_id)

    async def unregister(self, gateway: EngineGateway, worker_id: WorkerId) -> None:
        await gateway.ask(DeregisterWorker(worker_id=worker_id, namespace=self.namespace))
        self.pulse.forget(worker_id)

    async def worker(self, gateway: EngineGateway, worker_id: WorkerId) -> WorkerView:
        view = await gateway.ask(GetWorker(worker_id=worker_id, namespace=self.namespace))
        if METADATA not in (view.metadata or {}):
            raise NotFound(f"worker {worker_id!r} is none of neops", code="worker_not_found")
        return view

    # ── blocks ──

    async def register_block(self, gateway: EngineGateway, body: RegisterBlockBody) -> None:
        view = await self.worker(gateway, body.worker_id) if body.worker_id else None
        spec = declaration_of(body)
        await gateway.ask(
            RegisterBlocks(blocks=[spec], worker_id=body.worker_id, namespace=self.namespace)
        )
        if view is not None:
            self.pulse.heard(view.worker_id)
            await self._offers(gateway, view, job_actions(body.id))

    async def _offers(
        self, gateway: EngineGateway, view: WorkerView, actions: list[ActionName]
    ) -> None:
        """A worker is registered for these as well."""
        known = [process.name for process in view.processes]
        if set(actions) <= set(known):
            return
        await gateway.ask(
            RegisterWorker(
                processes=list(dict.fromkeys([*known, *actions])),
                worker_id=view.worker_id,
                namespace=self.namespace,
                max_concurrency=self.jobs_max,
                machine_id=view.machine_id,
                metadata=view.metadata,
                incarnation=view.worker_id,
            )
        )

    # ── jobs ──

    async def poll(
        self, gateway: EngineGateway, body: PollBody, request: Request[Any, Any, Any]
    ) -> list[dict[str, Any]]:
        """The jobs for a worker: of blocks that it names in this very poll, and fit for it."""
        view = await self.worker(gateway, body.worker_id)
        self.pulse.heard(view.worker_id)
        lost = LoseClaims(worker_id=view.worker_id, namespace=self.namespace)
        await self.engine.ask(lost, SERVER)
        actions = [action for one in body.function_block_ids for action in job_actions(one.id)]
        if not actions:
            return []
        await self._offers(gateway, view, actions)
        most = self.jobs_max if body.limit is None else min(self.jobs_max, int(body.limit))
        jobs: list[dict[str, Any]] = []
        for _ in range(UNFIT_PER_POLL_MAX):
            claim = Claim(
                worker_id=view.worker_id,
                actions=actions,
                namespace=self.namespace,
                max_tasks=most - len(jobs),
                block_ms=0 if jobs else HOLD_MS,
            )
            tasks = (await gateway.wait(claim, request)).tasks
            for task in tasks:
                job = await self._fit(gateway, view.worker_id, task)
                if job is not None:
                    jobs.append(job)
            if not tasks or len(jobs) >= most:
                break
        self.pulse.heard(view.worker_id)
        return jobs

    async def _fit(
        self, gateway: EngineGateway, worker_id: WorkerId, task: Task
    ) -> dict[str, Any] | None:
        """The job as it is answered. One that the worker could not read has failed instead.

        A worker throws away the whole answer for one field that it does not expect.
        """
        answer, problem = job_of(task)
        if problem is None:
            return answer
        _logger.warning("job_unfit", job=task.task_id, problem=problem)
        await gateway.ask(
            Fail(
                run_id=task.task_id,
                worker_id=worker_id,
                namespace=self.namespace,
                attempt=task.attempt,
                error=f"a neops worker cannot be given this job: {problem}",
                code=UNFIT_CODE,
                dead_letter=False,
            )
        )
        return None

    async def push(self, gateway: EngineGateway, body: ResultBody) -> None:
        """Take in a result; one for an attempt that is over is a conflict."""
        named = parse_job_id(body.job_execution_id)
        if named is None:
            raise _unknown(body.job_execution_id)
        run_id, attempt = named
        try:
            job = await gateway.ask(GetJob(job_id=body.job_execution_id, namespace=self.namespace))
        except NotFound as error:
            raise _unknown(body.job_execution_id) from error
        if job.worker_id is None or job.attempt != attempt:
            raise Conflict(f"job {body.job_execution_id!r} is over", code="lease_lost")
        if self.pulse.heard_at_ms(job.worker_id) is not None:
            self.pulse.heard(job.worker_id)
        report = Complete(
            run_id=run_id,
            worker_id=job.worker_id,
            namespace=self.namespace,
            attempt=attempt,
            output=_encode(result_of(body)),
        )
        try:
            await gateway.ask(report)
        except NotFound as error:
            raise _unknown(body.job_execution_id) from error
        except Invalid as refusal:
            await gateway.ask(
                Fail(
                    run_id=run_id,
                    worker_id=job.worker_id,
                    namespace=self.namespace,
                    attempt=attempt,
                    error=f"its result is refused: {refusal.message}",
                    code="invalid_result",
                    dead_letter=False,
                )
            )


def job_actions(block_id: str) -> list[ActionName]:
    """The actions whose runs are the jobs of a block."""
    return [job_action(block_id, job) for job in JobType]


def declaration_of(body: RegisterBlockBody) -> BlockDeclaration:
    """A block as it is registered."""
    for number in (body.major_version, body.minor_version, body.patch_version):
        whole(number, "version")
    try:
        run_on = RunOn(body.run_on or "global")
    except ValueError:
        expected = ", ".join(RunOn)
        raise Invalid(
            f"runOn: expected one of {expected}, got {body.run_on!r}", code="invalid_block"
        ) from None
    return BlockDeclaration(
        package=body.package,
        name=body.name,
        version=body.version,
        description=body.description,
        help=body.markdown_help_text or "",
        run_on=run_on,
        type=BlockType(body.fb_type),
        deprecated=bool(body.deprecated),
        parameter_schema=body.parameter_json_schema,
        result_schema=body.result_data_json_schema,
        pure=bool(body.is_pure),
        idempotent=bool(body.is_idempotent),
        reversible=bool(body.reversible),
        timeout_ms=TIMEOUT_MS,
    )


def job_of(task: Task) -> tuple[dict[str, Any], str | None]:
    """A task as the job that a worker is given, and why it would not accept it."""
    named = parse_job_action(task.task_type)
    try:
        given = _decode_input(task.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return {}, f"its input is none of a job: {error}"
    if named is None:
        return {}, f"{task.task_type!r} is no action of a block"
    block_id, job = named
    is_acquire = job is JobType.ACQUIRE
    answer = job_answer(
        JobToGive(
            job_id=job_id_of(task.task_id, task.attempt),
            block_id=block_id,
            type=job.value,
            parameters=given.parameters,
            step_label=given.step,
            run_on=given.run_on.value,
            entity_id=given.entity_id,
            devices=() if is_acquire else tuple(given.context.devices),
            device_groups=() if is_acquire else tuple(given.context.deviceGroups),
            interfaces=() if is_acquire else tuple(given.context.interfaces),
        )
    )
    return answer, problem_of(answer)


def result_of(body: ResultBody) -> JobResult:
    result = body.result
    updates = stored_updates(result.db_updates) if result.db_updates is not None else None
    return JobResult(
        success=body.succeeded,
        message=result.message or "",
        data=result.data,
        acquires=body.acquires,
        updates=updates,
    )


def _unknown(job_id: str) -> Conflict:
    """A worker gives up a result that is in conflict, and goes on; after anything else it is lost
    as well, but loudly.
    """
    return Conflict(f"there is no job {job_id[:200]!r}", code="unknown_job")
