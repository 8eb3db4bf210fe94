"""One call of every operation that changes something: what must be there, and what is called.

Each function is named after its operation. It is given a client and a number, sees to it that so
many calls can be made, and returns the messages of these calls. A new operation without one is
found by the test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from acceptance import one_effect_of_blocks
from flo import Flo, GroupSettings, Increment, NewRecord
from flo.model import actions, groups, kv, namespaces, plans, runs, schedules, streams, workers
from flo.model import workflows as flows
from flo.model.base import Message
from flo.model.declare.catalog import OPERATIONS
from flo.model.pipelines import pipelines, work
from flo.model.streams import Retention

Prepare: TypeAlias = Callable[[Flo, int], Awaitable[list[Any]]]

WORKER = "anna"
STREAM = "events"
WORKFLOW = """\
kind: Workflow
name: {name}
version: "1"
{more}
start:
  wait_for_signal: {{type: go}}
  transitions: {{success: flo.Completed}}
"""
GROUPS_PER_STREAM = SIGNALS_PER_RUN = 500
RECORDS_AT_ONCE = 1_000
SCHEDULE = 'schedule: {cron: "0 0 1 1 *"}'


async def each(flo: Flo, messages: Iterable[Message]) -> list[Any]:
    return await asyncio.gather(*(flo.call(one) for one in messages))  # type: ignore[arg-type]


def names(what: str, count: int) -> list[str]:
    return [f"{what}-{number}" for number in range(count)]


async def register_action(flo: Flo, count: int) -> list[Any]:
    return [actions.RegisterAction(name=name) for name in names("registered", count)]


async def some_actions(flo: Flo, what: str, count: int) -> list[str]:
    await each(flo, [actions.RegisterAction(name=name) for name in names(what, count)])
    return names(what, count)


async def delete_action(flo: Flo, count: int) -> list[Any]:
    there = await some_actions(flo, "deleted", count)
    return [actions.DeleteAction(name=name) for name in there]


async def disable_action(flo: Flo, count: int) -> list[Any]:
    there = await some_actions(flo, "disabled", count)
    return [actions.DisableAction(name=name) for name in there]


async def enable_action(flo: Flo, count: int) -> list[Any]:
    there = await some_actions(flo, "enabled", count)
    await each(flo, [actions.DisableAction(name=name) for name in there])
    return [actions.EnableAction(name=name) for name in there]


async def some_runs(flo: Flo, action: str, count: int) -> list[str]:
    await flo.actions.register(action, timeout_ms=600_000, max_retries=0)
    made = await each(flo, [runs.Invoke(action=action) for _ in range(count)])
    return [one.run_id for one in made]


async def held_runs(flo: Flo, action: str, count: int) -> list[str]:
    await some_runs(flo, action, count)
    worker = f"{WORKER}-{action}"
    await flo.call(
        workers.RegisterWorker(worker_id=worker, processes=[action], max_concurrency=count)
    )
    held: list[str] = []
    while len(held) < count:
        claim = runs.Claim(worker_id=worker, actions=[action], max_tasks=100)
        held += [task.task_id for task in (await flo.call(claim)).tasks]
    return held


async def dead_runs(flo: Flo, action: str, count: int) -> list[str]:
    held = await held_runs(flo, action, count)
    worker = f"{WORKER}-{action}"
    await each(flo, [runs.Fail(run_id=one, worker_id=worker, attempt=1) for one in held])
    return held


async def invoke(flo: Flo, count: int) -> list[Any]:
    await flo.actions.register("invoked")
    return [runs.Invoke(action="invoked") for _ in range(count)]


async def claim(flo: Flo, count: int) -> list[Any]:
    await some_runs(flo, "claimed", count)
    worker = f"{WORKER}-claimed"
    await flo.call(
        workers.RegisterWorker(worker_id=worker, processes=["claimed"], max_concurrency=count)
    )
    return [runs.Claim(worker_id=worker, actions=["claimed"], max_tasks=1) for _ in range(count)]


async def complete(flo: Flo, count: int) -> list[Any]:
    held = await held_runs(flo, "completed", count)
    worker = f"{WORKER}-completed"
    return [
        runs.Complete(run_id=one, worker_id=worker, attempt=number % 2)
        for number, one in enumerate(held)
    ]


async def fail(flo: Flo, count: int) -> list[Any]:
    held = await held_runs(flo, "failed", count)
    worker = f"{WORKER}-failed"
    return [
        runs.Fail(run_id=one, worker_id=worker, attempt=number % 2)
        for number, one in enumerate(held)
    ]


async def touch(flo: Flo, count: int) -> list[Any]:
    held = await held_runs(flo, "touched", count)
    worker = f"{WORKER}-touched"
    return [runs.Touch(run_id=one, worker_id=worker, extend_ms=700_000) for one in held]


async def cancel(flo: Flo, count: int) -> list[Any]:
    return [runs.Cancel(run_id=one) for one in await some_runs(flo, "cancelled", count)]


async def requeue_dead_runs(flo: Flo, count: int) -> list[Any]:
    dead = await dead_runs(flo, "requeued", count)
    return [runs.RequeueDeadRuns(action="requeued", ids=[one]) for one in dead]


async def purge_dead_runs(flo: Flo, count: int) -> list[Any]:
    dead = await dead_runs(flo, "purged", count)
    return [runs.PurgeDeadRuns(action="purged", ids=[one]) for one in dead]


async def register_worker(flo: Flo, count: int) -> list[Any]:
    return [workers.RegisterWorker(processes=["registered"]) for _ in range(count)]


async def some_workers(flo: Flo, what: str, count: int) -> list[str]:
    ids = names(what, count)
    await each(flo, [workers.RegisterWorker(worker_id=one, processes=[what]) for one in ids])
    return ids


async def heartbeat(flo: Flo, count: int) -> list[Any]:
    ids = await some_workers(flo, "beating", count)
    return [workers.Heartbeat(worker_id=one, current_load=1) for one in ids]


async def drain_worker(flo: Flo, count: int) -> list[Any]:
    ids = await some_workers(flo, "drained", count)
    return [workers.DrainWorker(worker_id=one) for one in ids]


async def deregister_worker(flo: Flo, count: int) -> list[Any]:
    ids = await some_workers(flo, "leaving", count)
    return [workers.DeregisterWorker(worker_id=one) for one in ids]


async def create_namespace(flo: Flo, count: int) -> list[Any]:
    return [namespaces.CreateNamespace(name=name) for name in names("made", count)]


async def delete_namespace(flo: Flo, count: int) -> list[Any]:
    there = names("unmade", count)
    await each(flo, [namespaces.CreateNamespace(name=name) for name in there])
    return [namespaces.DeleteNamespace(name=name) for name in there]


async def some_streams(flo: Flo, what: str, count: int, records: int = 0) -> list[str]:
    there = names(what, count)
    await each(flo, [streams.CreateStream(stream=name) for name in there])
    for begin in range(0, records, RECORDS_AT_ONCE):
        some = [NewRecord(payload=b"x")] * min(records - begin, RECORDS_AT_ONCE)
        await each(flo, [streams.Append(stream=name, records=some) for name in there])
    return there


async def create_stream(flo: Flo, count: int) -> list[Any]:
    return [streams.CreateStream(stream=name) for name in names("made", count)]


async def alter_stream(flo: Flo, count: int) -> list[Any]:
    there = await some_streams(flo, "altered", count)
    return [streams.AlterStream(stream=name, retention=Retention(max_length=9)) for name in there]


async def delete_stream(flo: Flo, count: int) -> list[Any]:
    there = await some_streams(flo, "deleted", count)
    return [streams.DeleteStream(stream=name) for name in there]


async def append(flo: Flo, count: int) -> list[Any]:
    await some_streams(flo, "appended", 1)
    record = NewRecord(payload=b"x")
    return [streams.Append(stream="appended-0", records=[record]) for _ in range(count)]


async def trim_stream(flo: Flo, count: int) -> list[Any]:
    there = await some_streams(flo, "trimmed", count, records=2)
    return [streams.TrimStream(stream=name, max_length=1) for name in there]


def group_places(what: str, count: int) -> list[dict[str, str]]:
    """Where so many groups are, or will be: a stream can have only so many."""
    return [
        {"stream": f"{what}-{number // GROUPS_PER_STREAM}", "group": f"g-{number}"}
        for number in range(count)
    ]


async def create_group(flo: Flo, count: int) -> list[Any]:
    await some_streams(flo, "grouped", count // GROUPS_PER_STREAM + 1)
    return [groups.CreateGroup(**place) for place in group_places("grouped", count)]


async def some_groups(flo: Flo, what: str, count: int) -> list[dict[str, str]]:
    await some_streams(flo, what, count // GROUPS_PER_STREAM + 1)
    there = group_places(what, count)
    await each(flo, [groups.CreateGroup(**place) for place in there])
    return there


async def delete_group(flo: Flo, count: int) -> list[Any]:
    return [groups.DeleteGroup(**place) for place in await some_groups(flo, "ungrouped", count)]


async def join_group(flo: Flo, count: int) -> list[Any]:
    there = await some_groups(flo, "joined", count)
    return [groups.JoinGroup(consumer="c", **place) for place in there]


async def leave_group(flo: Flo, count: int) -> list[Any]:
    there = await some_groups(flo, "left", count)
    await each(flo, [groups.JoinGroup(consumer="c", **place) for place in there])
    return [groups.LeaveGroup(consumer="c", **place) for place in there]


async def some_records(flo: Flo, what: str, count: int, deliveries: int = 5) -> dict[str, str]:
    """A stream with so many records and a group of it."""
    await some_streams(flo, what, 1, records=count)
    settings = GroupSettings(ack_timeout_ms=600_000, max_deliveries=deliveries)
    there = {"stream": f"{what}-0", "group": "g"}
    await flo.call(groups.CreateGroup(settings=settings, start="0-0", **there))
    return there


async def held_records(flo: Flo, what: str, count: int) -> tuple[dict[str, str], list[str]]:
    there = await some_records(flo, what, count, deliveries=1 if what.startswith("dead") else 5)
    held: list[str] = []
    while len(held) < count:
        read = await flo.call(groups.ReadGroup(consumer="c", limit=100, **there))
        held += [one.stream_id for one in read.items]
    return there, held


async def read_group(flo: Flo, count: int) -> list[Any]:
    there = await some_records(flo, "read", count)
    await flo.call(groups.JoinGroup(consumer="c", **there))
    return [groups.ReadGroup(consumer="c", limit=1, **there) for _ in range(count)]


async def ack(flo: Flo, count: int) -> list[Any]:
    there, held = await held_records(flo, "acked", count)
    return [groups.Ack(ids=[one], **there) for one in held]


async def nack(flo: Flo, count: int) -> list[Any]:
    there, held = await held_records(flo, "nacked", count)
    return [groups.Nack(ids=[one], delay_ms=600_000, **there) for one in held]


async def touch_records(flo: Flo, count: int) -> list[Any]:
    there, held = await held_records(flo, "kept", count)
    return [groups.TouchRecords(consumer="c", ids=[one], extend_ms=700, **there) for one in held]


async def claim_records(flo: Flo, count: int) -> list[Any]:
    there, _ = await held_records(flo, "taken", count)
    await flo.call(groups.JoinGroup(consumer="d", **there))
    return [groups.ClaimRecords(consumer="d", min_idle_ms=1, limit=1, **there)] * count


async def dead_records(flo: Flo, what: str, count: int) -> tuple[dict[str, str], list[str]]:
    there, held = await held_records(flo, what, count)
    await each(flo, [groups.Nack(ids=[one], **there) for one in held])
    while (await flo.call(groups.GetGroup(**there))).dead < count:
        await flo.call(groups.ReadGroup(consumer="c", limit=100, **there))
    return there, held


async def requeue_dead_records(flo: Flo, count: int) -> list[Any]:
    there, dead = await dead_records(flo, "dead-back", count)
    return [groups.RequeueDeadRecords(ids=[one], **there) for one in dead]


async def purge_dead_records(flo: Flo, count: int) -> list[Any]:
    there, dead = await dead_records(flo, "dead-gone", count)
    return [groups.PurgeDeadRecords(ids=[one], **there) for one in dead]


async def some_keys(flo: Flo, what: str, count: int, value: bytes = b'{"a":1}') -> list[str]:
    await each(flo, [kv.PutKey(key=key, value=value) for key in names(what, count)])
    return names(what, count)


async def put_key(flo: Flo, count: int) -> list[Any]:
    return [kv.PutKey(key="put", value=b"x") for _ in range(count)]


async def delete_key(flo: Flo, count: int) -> list[Any]:
    return [kv.DeleteKey(key=key) for key in await some_keys(flo, "deleted", count)]


async def increment_key(flo: Flo, count: int) -> list[Any]:
    return [kv.IncrementKey(key="counted") for _ in range(count)]


async def expire_key(flo: Flo, count: int) -> list[Any]:
    keys = await some_keys(flo, "expiring", count)
    return [kv.ExpireKey(key=key, ttl_ms=900_000) for key in keys]


async def set_json(flo: Flo, count: int) -> list[Any]:
    keys = await some_keys(flo, "json", count)
    return [kv.SetJson(key=key, path="$.b", document=b"2") for key in keys]


async def delete_json(flo: Flo, count: int) -> list[Any]:
    keys = await some_keys(flo, "unjson", count)
    return [kv.DeleteJson(key=key, path="$.a") for key in keys]


async def transact(flo: Flo, count: int) -> list[Any]:
    return [kv.Transact(changes=[Increment(key="transacted", delta=1)]) for _ in range(count)]


async def begin_transaction(flo: Flo, count: int) -> list[Any]:
    return [kv.BeginTransaction() for _ in range(count)]


async def open_transactions(flo: Flo, what: str, count: int) -> list[int]:
    begun = await each(flo, [kv.BeginTransaction() for _ in range(count)])
    numbers = [one.transaction for one in begun]
    await each(flo, [kv.IncrementKey(key=what, transaction=one) for one in numbers])
    return numbers


async def commit_transaction(flo: Flo, count: int) -> list[Any]:
    begun = await open_transactions(flo, "committed", count)
    return [kv.CommitTransaction(transaction=one) for one in begun]


async def rollback_transaction(flo: Flo, count: int) -> list[Any]:
    begun = await open_transactions(flo, "rolled-back", count)
    return [kv.RollbackTransaction(transaction=one) for one in begun]


async def read_in_transaction(flo: Flo, count: int) -> list[Any]:
    begun = await open_transactions(flo, "read", count)
    return [kv.ReadInTransaction(transaction=one, key="read") for one in begun]


def texts(what: str, count: int, more: str = "") -> list[str]:
    return [WORKFLOW.format(name=name, more=more) for name in names(what, count)]


async def some_workflows(flo: Flo, what: str, count: int, more: str = "") -> list[str]:
    await each(flo, [flows.CreateWorkflow(text=text) for text in texts(what, count, more)])
    return names(what, count)


async def create_workflow(flo: Flo, count: int) -> list[Any]:
    return [flows.CreateWorkflow(text=text) for text in texts("made", count)]


async def delete_workflow(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "deleted", count)
    return [flows.DeleteWorkflow(name=name) for name in there]


async def disable_workflow(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "disabled", count)
    return [flows.DisableWorkflow(name=name) for name in there]


async def enable_workflow(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "enabled", count)
    await each(flo, [flows.DisableWorkflow(name=name) for name in there])
    return [flows.EnableWorkflow(name=name) for name in there]


async def start_workflow(flo: Flo, count: int) -> list[Any]:
    await some_workflows(flo, "started", 1)
    return [flows.StartWorkflow(name="started-0") for _ in range(count)]


async def some_executions(flo: Flo, what: str, count: int) -> list[str]:
    await some_workflows(flo, what, 1)
    begun = await each(flo, [flows.StartWorkflow(name=f"{what}-0") for _ in range(count)])
    return [one.run_id for one in begun]


async def signal_workflow(flo: Flo, count: int) -> list[Any]:
    ids = await some_executions(flo, "signalled", count // SIGNALS_PER_RUN + 1)
    return [
        flows.SignalWorkflow(run_id=ids[number // SIGNALS_PER_RUN], type="other")
        for number in range(count)
    ]


async def cancel_workflow(flo: Flo, count: int) -> list[Any]:
    ids = await some_executions(flo, "cancelled", count)
    return [flows.CancelWorkflow(run_id=one) for one in ids]


async def pause_workflow(flo: Flo, count: int) -> list[Any]:
    ids = await some_executions(flo, "paused", count)
    return [flows.PauseWorkflow(run_id=one) for one in ids]


async def resume_workflow(flo: Flo, count: int) -> list[Any]:
    ids = await some_executions(flo, "resumed", count)
    await each(flo, [flows.PauseWorkflow(run_id=one) for one in ids])
    return [flows.ResumeWorkflow(run_id=one) for one in ids]


async def rerun_workflow(flo: Flo, count: int) -> list[Any]:
    ids = await some_executions(flo, "rerun", count)
    return [flows.RerunWorkflow(run_id=one) for one in ids]


async def pause_schedule(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "halted", count, SCHEDULE)
    return [schedules.PauseSchedule(workflow=name) for name in there]


async def resume_schedule(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "going", count, SCHEDULE)
    await each(flo, [schedules.PauseSchedule(workflow=name) for name in there])
    return [schedules.ResumeSchedule(workflow=name) for name in there]


async def run_schedule(flo: Flo, count: int) -> list[Any]:
    await some_workflows(flo, "fired", 1, SCHEDULE)
    return [schedules.RunSchedule(workflow="fired-0") for _ in range(count)]


async def skip_schedule(flo: Flo, count: int) -> list[Any]:
    there = await some_workflows(flo, "skipped", count, SCHEDULE)
    return [schedules.SkipSchedule(workflow=name) for name in there]


async def emit_event(flo: Flo, count: int) -> list[Any]:
    return [plans.EmitEvent(name="something") for _ in range(count)]


def graph_of(role: str) -> dict[str, Any]:
    return {"nodes": [{"node_id": "n", "type": role}]}


async def some_pipelines(flo: Flo, role: str, count: int) -> list[str]:
    submit = pipelines.SubmitPipeline(graph=graph_of(role))
    return [one.id for one in await each(flo, [submit] * count)]


async def held_nodes(flo: Flo, role: str, count: int) -> list[dict[str, Any]]:
    """Nodes in the hands of a worker: what every report about one says."""
    await some_pipelines(flo, role, count)
    starts = await started_nodes(flo, role, count)
    return [{"id": one.id, "node": one.node, "epoch": one.epoch} for one in starts]


async def started_nodes(flo: Flo, role: str, count: int) -> list[work.NodeStart]:
    starts: list[work.NodeStart] = []
    while len(starts) < count:
        holds = [(one.id, one.node, one.epoch) for one in starts]
        ask = work.AwaitNode(
            worker_id=f"{WORKER}-{role}",
            roles=[role],
            holds=holds,
            max_nodes=100,
            lease_ms=600_000,
        )
        starts += (await flo.call(ask)).starts
    return starts


async def submit_pipeline(flo: Flo, count: int) -> list[Any]:
    return [pipelines.SubmitPipeline(graph=graph_of("submitted")) for _ in range(count)]


async def cancel_pipeline(flo: Flo, count: int) -> list[Any]:
    ids = await some_pipelines(flo, "cancelled", count)
    return [pipelines.CancelPipeline(id=one) for one in ids]


async def retry_pipeline(flo: Flo, count: int) -> list[Any]:
    ids = await some_pipelines(flo, "retried", count)
    await each(flo, [pipelines.CancelPipeline(id=one) for one in ids])
    return [pipelines.RetryPipeline(id=one) for one in ids]


async def publish_pipeline(flo: Flo, count: int) -> list[Any]:
    return [
        pipelines.PublishPipeline(name=name, graph=graph_of("stored"))
        for name in names("stored", count)
    ]


async def delete_pipeline_graph(flo: Flo, count: int) -> list[Any]:
    there = names("unstored", count)
    await each(
        flo, [pipelines.PublishPipeline(name=name, graph=graph_of("stored")) for name in there]
    )
    return [pipelines.DeletePipelineGraph(name=name) for name in there]


async def configure_pipelines(flo: Flo, count: int) -> list[Any]:
    return [
        pipelines.ConfigurePipelines(
            settings=pipelines.PipelineSettings(max_global_running=100_000 + number)
        )
        for number in range(count)
    ]


async def call_pipeline_function(flo: Flo, count: int) -> list[Any]:
    (one,) = await some_pipelines(flo, "called", 1)
    arguments = {"key": "calls"}
    call = pipelines.CallPipelineFunction(id=one, function="vars.incr", arguments=arguments)
    return [call for _ in range(count)]


async def patch_pipeline(flo: Flo, count: int) -> list[Any]:
    (one,) = await some_pipelines(flo, "patched", 1)
    return [pipelines.PatchPipeline(id=one, inc={"coordinator.vars.n": 1}) for _ in range(count)]


async def await_node(flo: Flo, count: int) -> list[Any]:
    await some_pipelines(flo, "awaited", count)
    return [
        work.AwaitNode(worker_id=name, roles=["awaited"], lease_ms=600_000)
        for name in names(WORKER, count)
    ]


async def heartbeat_node(flo: Flo, count: int) -> list[Any]:
    held = await held_nodes(flo, "beating", count)
    worker = f"{WORKER}-beating"
    return [work.HeartbeatNode(worker_id=worker, lease_ms=700_000, **one) for one in held]


async def sources_of(flo: Flo, what: str, count: int) -> list[dict[str, Any]]:
    """Consumers that have not read the one batch of their source yet."""
    pull = {"input_adapter": "pull.from_artifacts", "input_args": {"from_nodes": ["u"]}}
    reader = {"start_when": "first_batch", "input_inline": pull}
    graph = {
        "nodes": [
            {"node_id": "u", "type": f"make-{what}"},
            {"node_id": "v", "type": f"read-{what}", "depends_on": ["u"], "io": reader},
        ]
    }
    await each(flo, [pipelines.SubmitPipeline(graph=graph)] * count)
    for one in await started_nodes(flo, f"make-{what}", count):
        await flo.call(work.ReportBatch(id=one.id, node="u", epoch=one.epoch, batch_uid="b"))
    starts = await started_nodes(flo, f"read-{what}", count)
    return [{"id": one.id, "node": one.node, "epoch": one.epoch} for one in starts]


async def next_input(flo: Flo, count: int) -> list[Any]:
    there = await sources_of(flo, "next", count)
    return [work.NextInput(from_nodes=["u"], **one) for one in there]


async def finish_input(flo: Flo, count: int) -> list[Any]:
    there = await sources_of(flo, "finished", count)
    await each(flo, [work.NextInput(from_nodes=["u"], **one) for one in there])
    claim = work.InputClaim(from_node="u", number=0)
    return [work.FinishInput(inputs=[claim], **one) for one in there]


async def report_batch(flo: Flo, count: int) -> list[Any]:
    (one,) = await held_nodes(flo, "reported", 1)
    return [work.ReportBatch(batch_uid=uid, **one) for uid in names("b", count)]


async def complete_node(flo: Flo, count: int) -> list[Any]:
    held = await held_nodes(flo, "done", count)
    return [work.CompleteNode(**one) for one in held]


async def fail_node(flo: Flo, count: int) -> list[Any]:
    held = await held_nodes(flo, "unable", count)
    return [work.FailNode(reason_code="broken", **one) for one in held]


async def release_node(flo: Flo, count: int) -> list[Any]:
    held = await held_nodes(flo, "given-back", count)
    return [work.ReleaseNode(**one) for one in held]


async def put_artifact(flo: Flo, count: int) -> list[Any]:
    (one,) = await held_nodes(flo, "putting", 1)
    return [work.PutArtifact(batch_uid=uid, **one) for uid in names("b", count)]


async def record_pipeline_event(flo: Flo, count: int) -> list[Any]:
    (one,) = await held_nodes(flo, "recorded", 1)
    return [
        work.RecordPipelineEvent(
            id=one["id"],
            node=one["node"],
            kind="BATCH_OK",
            attempt_epoch=1,
            payload={"batch_uid": uid, "metrics": {}},
            dedup_id=uid,
        )
        for uid in names("b", count)
    ]


CALLS_AT_ONCE_MAX = dict.fromkeys(
    ("begin_transaction", "commit_transaction", "rollback_transaction", "read_in_transaction"),
    1_000,
)
"""A server has no more transactions open than about this."""
CHANGING = {one.name: one for one in OPERATIONS if not one.is_query}
ONLY_ON_CONNECTING = {"resume_worker"}
"""The SDK says this by itself, first of all on a new connection, and never again on another."""
VOLATILE = {
    "heartbeat",
    "begin_transaction",
    "rollback_transaction",
    "read_in_transaction",
    "emit_event",
}
"""They change only what dies with the process, and leave no event."""
HANDED_OUT = {"claim", "read_group", "await_node", "next_input", "heartbeat_node"}
"""What a lost answer handed out is given back; who calls them once and for all chooses a key."""
SCENES: dict[str, Prepare] = {
    name: (globals() | vars(one_effect_of_blocks))[name]
    for name in CHANGING
    if name not in ONLY_ON_CONNECTING
}
