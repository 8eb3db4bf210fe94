"""The table: opcode to request and reply type.

`many` marks the batch forms: the request is a list of words, the reply a list with one answer for
each, in order, and each is accepted or refused on its own.
"""

from typing import NamedTuple

from flo.model import (
    actions,
    groups,
    kv,
    namespaces,
    plans,
    runs,
    schedules,
    streams,
    workers,
    workflows,
)
from flo.model.base import Message

PROTOCOL_VERSION = 1
BATCH_LENGTH_MAX = 1_000


class Hello(Message):
    """The first thing a client says."""

    protocol: int
    client: str = ""


class Welcome(Message):
    """The first thing a server answers."""

    protocol: int
    server: str
    frame_length_max: int
    batch_length_max: int = BATCH_LENGTH_MAX


class Ping(Message):
    pass


class Operation(NamedTuple):
    opcode: int
    name: str
    request: type[Message]
    reply: type[Message]
    many: bool = False


OPERATIONS = (
    Operation(1, "hello", Hello, Welcome),
    Operation(2, "ping", Ping, runs.Nothing),
    Operation(10, "register_action", actions.RegisterAction, actions.Registered),
    Operation(11, "delete_action", actions.DeleteAction, runs.Nothing),
    Operation(12, "get_action", actions.GetAction, actions.ActionView),
    Operation(13, "list_actions", actions.ListActions, actions.ActionPage),
    Operation(14, "enable_action", actions.EnableAction, runs.Nothing),
    Operation(15, "disable_action", actions.DisableAction, runs.Nothing),
    Operation(20, "invoke", runs.Invoke, runs.Invoked),
    Operation(21, "invoke_many", runs.Invoke, runs.Invoked, many=True),
    Operation(22, "claim", runs.Claim, runs.Assigned),
    Operation(23, "complete", runs.Complete, runs.Accepted),
    Operation(24, "complete_many", runs.Complete, runs.Accepted, many=True),
    Operation(25, "fail", runs.Fail, runs.Accepted),
    Operation(26, "touch", runs.Touch, runs.Touched),
    Operation(27, "cancel", runs.Cancel, runs.Accepted),
    Operation(28, "requeue_dead", runs.RequeueDead, runs.Requeued),
    Operation(29, "purge_dead", runs.PurgeDead, runs.Purged),
    Operation(30, "get_run", runs.GetRun, runs.RunView),
    Operation(31, "wait_for_runs", runs.WaitForRuns, runs.Ended),
    Operation(32, "list_runs", runs.ListRuns, runs.RunPage),
    Operation(33, "list_dead", runs.ListDead, runs.RunPage),
    Operation(40, "register_worker", workers.RegisterWorker, workers.WorkerKnown),
    Operation(41, "heartbeat", workers.Heartbeat, workers.WorkerKnown),
    Operation(42, "drain_worker", workers.DrainWorker, workers.WorkerKnown),
    Operation(43, "deregister_worker", workers.DeregisterWorker, runs.Nothing),
    Operation(44, "get_worker", workers.GetWorker, workers.WorkerView),
    Operation(45, "list_workers", workers.ListWorkers, workers.WorkerPage),
    Operation(46, "await_news", workers.AwaitNotifications, workers.Notifications),
    Operation(50, "create_namespace", namespaces.CreateNamespace, runs.Nothing),
    Operation(51, "delete_namespace", namespaces.DeleteNamespace, runs.Nothing),
    Operation(52, "get_namespace", namespaces.GetNamespace, namespaces.NamespaceView),
    Operation(53, "list_namespaces", namespaces.ListNamespaces, namespaces.NamespacePage),
    Operation(60, "create_stream", streams.CreateStream, runs.Nothing),
    Operation(61, "alter_stream", streams.AlterStream, runs.Nothing),
    Operation(62, "delete_stream", streams.DeleteStream, runs.Nothing),
    Operation(63, "append", streams.Append, streams.Appended),
    Operation(64, "append_many", streams.Append, streams.Appended, many=True),
    Operation(65, "read_stream", streams.ReadStream, streams.RecordPage),
    Operation(66, "trim_stream", streams.TrimStream, streams.Trimmed),
    Operation(67, "get_stream", streams.GetStream, streams.StreamView),
    Operation(68, "list_streams", streams.ListStreams, streams.StreamPage),
    Operation(70, "create_group", groups.CreateGroup, runs.Nothing),
    Operation(71, "delete_group", groups.DeleteGroup, runs.Nothing),
    Operation(72, "join_group", groups.JoinGroup, groups.Joined),
    Operation(73, "leave_group", groups.LeaveGroup, runs.Nothing),
    Operation(74, "read_group", groups.ReadGroup, groups.GroupRecords),
    Operation(75, "ack", groups.Ack, groups.Settled),
    Operation(76, "nack", groups.Nack, groups.Settled),
    Operation(77, "touch_records", groups.TouchRecords, groups.Settled),
    Operation(78, "claim_records", groups.ClaimRecords, groups.ClaimedRecords),
    Operation(79, "list_pending", groups.ListPending, groups.PendingPage),
    Operation(80, "get_group", groups.GetGroup, groups.GroupView),
    Operation(81, "list_groups", groups.ListGroups, groups.GroupPage),
    Operation(82, "list_letters", groups.ListLetters, groups.LetterPage),
    Operation(83, "requeue_letters", groups.RequeueLetters, groups.LettersChanged),
    Operation(84, "purge_letters", groups.PurgeLetters, groups.LettersChanged),
    Operation(100, "get_key", kv.GetKey, kv.Value),
    Operation(101, "put_key", kv.PutKey, kv.Versioned),
    Operation(102, "put_key_many", kv.PutKey, kv.Versioned, many=True),
    Operation(103, "delete_key", kv.DeleteKey, kv.Deleted),
    Operation(104, "get_keys", kv.GetKeys, kv.Values),
    Operation(105, "scan_keys", kv.ScanKeys, kv.KeyPage),
    Operation(106, "get_key_history", kv.GetKeyHistory, kv.KeyHistory),
    Operation(107, "increment_key", kv.IncrementKey, kv.Incremented),
    Operation(108, "expire_key", kv.ExpireKey, kv.Versioned),
    Operation(109, "get_json", kv.GetJson, kv.Value),
    Operation(110, "set_json", kv.SetJson, kv.Versioned),
    Operation(111, "delete_json", kv.DeleteJson, kv.Versioned),
    Operation(112, "transact", kv.Transact, kv.Committed),
    Operation(113, "begin_transaction", kv.BeginTransaction, kv.Transaction),
    Operation(114, "commit_transaction", kv.CommitTransaction, kv.Committed),
    Operation(115, "rollback_transaction", kv.RollbackTransaction, runs.Nothing),
    Operation(116, "read_in_transaction", kv.ReadInTransaction, kv.Value),
    Operation(120, "create_workflow", workflows.CreateWorkflow, workflows.WorkflowDeployed),
    Operation(121, "validate_workflow", workflows.ValidateWorkflow, workflows.Validated),
    Operation(122, "delete_workflow", workflows.DeleteWorkflow, runs.Nothing),
    Operation(123, "disable_workflow", workflows.DisableWorkflow, runs.Nothing),
    Operation(124, "enable_workflow", workflows.EnableWorkflow, runs.Nothing),
    Operation(125, "get_workflow", workflows.GetWorkflow, workflows.WorkflowView),
    Operation(126, "list_workflows", workflows.ListWorkflows, workflows.WorkflowPage),
    Operation(130, "start_workflow", workflows.StartWorkflow, workflows.WorkflowBegun),
    Operation(
        131, "start_workflow_many", workflows.StartWorkflow, workflows.WorkflowBegun, many=True
    ),
    Operation(132, "signal_workflow", workflows.SignalWorkflow, runs.Nothing),
    Operation(133, "cancel_workflow", workflows.CancelWorkflow, runs.Nothing),
    Operation(134, "pause_workflow", workflows.PauseWorkflow, runs.Nothing),
    Operation(135, "resume_workflow", workflows.ResumeWorkflow, runs.Nothing),
    Operation(136, "rerun_workflow", workflows.RerunWorkflow, workflows.WorkflowBegun),
    Operation(137, "get_workflow_run", workflows.GetWorkflowRun, workflows.WorkflowRunView),
    Operation(138, "wait_for_workflow", workflows.WaitForWorkflow, workflows.WorkflowRunView),
    Operation(139, "list_workflow_runs", workflows.ListWorkflowRuns, workflows.WorkflowRunPage),
    Operation(140, "get_history", workflows.GetHistory, workflows.HistoryPage),
    Operation(141, "explain_workflow", workflows.ExplainWorkflow, workflows.Explanation),
    Operation(150, "pause_schedule", schedules.PauseSchedule, runs.Nothing),
    Operation(151, "resume_schedule", schedules.ResumeSchedule, runs.Nothing),
    Operation(152, "run_schedule", schedules.RunSchedule, workflows.WorkflowBegun),
    Operation(153, "get_schedule", schedules.GetSchedule, schedules.ScheduleView),
    Operation(154, "list_schedules", schedules.ListSchedules, schedules.SchedulePage),
    Operation(160, "get_plan", plans.GetPlan, plans.PlanView),
    Operation(161, "emit_event", plans.EmitEvent, plans.Emitted),
)

BY_OPCODE = {operation.opcode: operation for operation in OPERATIONS}
BY_NAME = {operation.name: operation for operation in OPERATIONS}

HELLO = BY_NAME["hello"]
PING = BY_NAME["ping"]
