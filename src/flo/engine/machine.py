"""The machine: a command is decided by its rule, its events are folded and followed.

command ──RULES──▸ events ──FOLDS──▸ state
                     ▲  └──FOLLOWS──▸ further events ─┐
                     └────────────────────────────────┘
question ──VIEWS──▸ reply
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from flo.engine import queries as views
from flo.engine import ticks
from flo.engine.actions import rules as actions
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.groups import dead_letters as letters
from flo.engine.groups import reads as group_reads
from flo.engine.groups import rules as groups
from flo.engine.kv import queries as kv_views
from flo.engine.kv import rules as kv
from flo.engine.namespaces import rules as namespaces
from flo.engine.plans import queries as plan_views
from flo.engine.runs import claims, effects, limits, reports
from flo.engine.runs import dead_letters as dead
from flo.engine.runs import ends as run_ends
from flo.engine.runs import rules as runs
from flo.engine.schedules import rules as schedules
from flo.engine.schedules import triggers
from flo.engine.state import State
from flo.engine.streams import queries as stream_views
from flo.engine.streams import rules as streams
from flo.engine.volatile import VolatileState
from flo.engine.workers import rules as workers
from flo.engine.workflows import explain
from flo.engine.workflows import folds as workflow_folds
from flo.engine.workflows import queries as workflow_views
from flo.engine.workflows import rules as workflows
from flo.engine.workflows.advance import plans
from flo.model import actions as action_words
from flo.model import groups as group_words
from flo.model import kv as kv_words
from flo.model import namespaces as namespace_words
from flo.model import plans as plan_words
from flo.model import runs as run_words
from flo.model import schedules as schedule_words
from flo.model import streams as stream_words
from flo.model import workers as worker_words
from flo.model import workflow_facts
from flo.model import workflows as workflow_words
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Event, Message
from flo.model.errors import FloError, Unexpected

EVENTS_PER_COMMAND_MAX = 100_000

Rule: TypeAlias = Callable[[State, Any, Context], Decision]
Fold: TypeAlias = Callable[[State, Any], None]
Reaction: TypeAlias = Callable[[State, Any, Context], Iterable[Event]]
QueryRule: TypeAlias = Callable[[State, Any, Context], Message]

RULES: dict[type[Message], Rule] = {
    action_words.RegisterAction: actions.decide_register,
    action_words.DeleteAction: actions.decide_delete,
    action_words.EnableAction: actions.decide_enable,
    action_words.DisableAction: actions.decide_disable,
    namespace_words.CreateNamespace: namespaces.decide_create,
    namespace_words.DeleteNamespace: namespaces.decide_delete,
    run_words.Invoke: runs.decide_invoke,
    run_words.Claim: claims.decide_claim,
    run_words.Complete: effects.decide_complete,
    run_words.Fail: reports.decide_fail,
    run_words.Touch: reports.decide_touch,
    run_words.Cancel: runs.decide_cancel,
    run_words.RequeueDead: dead.decide_requeue,
    run_words.PurgeDead: dead.decide_purge,
    run_words.Tick: ticks.decide_tick,
    stream_words.CreateStream: streams.decide_create,
    stream_words.AlterStream: streams.decide_alter,
    stream_words.DeleteStream: streams.decide_delete,
    stream_words.Append: streams.decide_append,
    stream_words.TrimStream: streams.decide_trim,
    group_words.CreateGroup: groups.decide_create,
    group_words.DeleteGroup: groups.decide_delete,
    group_words.JoinGroup: groups.decide_join,
    group_words.LeaveGroup: groups.decide_leave,
    group_words.ReadGroup: group_reads.decide_read,
    group_words.ClaimRecords: group_reads.decide_claim,
    group_words.Ack: groups.decide_ack,
    group_words.Nack: groups.decide_nack,
    group_words.TouchRecords: groups.decide_touch,
    group_words.RequeueLetters: letters.decide_requeue,
    group_words.PurgeLetters: letters.decide_purge,
    workflow_words.CreateWorkflow: workflows.decide_create,
    workflow_words.DeleteWorkflow: workflows.decide_delete,
    workflow_words.DisableWorkflow: workflows.decide_disable,
    workflow_words.EnableWorkflow: workflows.decide_enable,
    workflow_words.StartWorkflow: workflows.decide_start,
    workflow_words.SignalWorkflow: workflows.decide_signal,
    workflow_words.CancelWorkflow: workflows.decide_cancel,
    workflow_words.PauseWorkflow: workflows.decide_pause,
    workflow_words.ResumeWorkflow: workflows.decide_resume,
    workflow_words.RerunWorkflow: workflows.decide_rerun,
    schedule_words.PauseSchedule: schedules.decide_pause,
    schedule_words.ResumeSchedule: schedules.decide_resume,
    schedule_words.RunSchedule: schedules.decide_run_now,
    schedule_words.PullTrigger: triggers.decide_pull,
    plan_words.EmitEvent: plans.decide_emit,
    kv_words.PutKey: kv.decide_put,
    kv_words.DeleteKey: kv.decide_delete,
    kv_words.IncrementKey: kv.decide_increment,
    kv_words.ExpireKey: kv.decide_expire,
    kv_words.SetJson: kv.decide_set_json,
    kv_words.DeleteJson: kv.decide_delete_json,
    kv_words.Transact: kv.decide_transact,
    kv_words.BeginTransaction: kv.decide_begin,
    kv_words.CommitTransaction: kv.decide_commit,
    kv_words.RollbackTransaction: kv.decide_rollback,
    kv_words.ReadInTransaction: kv.decide_read,
    worker_words.RegisterWorker: workers.decide_register,
    worker_words.Heartbeat: workers.decide_heartbeat,
    worker_words.DrainWorker: workers.decide_drain,
    worker_words.DeregisterWorker: workers.decide_deregister,
}

FOLDS: dict[type[Event], Fold] = {
    stream_words.StreamCreated: streams.apply_created,
    stream_words.StreamAltered: streams.apply_altered,
    stream_words.StreamDeleted: streams.apply_deleted,
    stream_words.RecordsAppended: streams.apply_appended,
    stream_words.StreamTrimmed: streams.apply_trimmed,
    group_words.GroupCreated: groups.apply_created,
    group_words.GroupDeleted: groups.apply_deleted,
    group_words.ConsumerJoined: groups.apply_joined,
    group_words.ConsumerLeft: groups.apply_left,
    group_words.ConsumerChosen: groups.apply_chosen,
    group_words.RecordsDelivered: groups.apply_delivered,
    group_words.RecordsAcked: groups.apply_acked,
    group_words.RecordsReturned: groups.apply_returned,
    group_words.RecordsReleased: groups.apply_released,
    group_words.RecordsTouched: groups.apply_touched,
    group_words.RecordDied: letters.apply_died,
    group_words.LetterRevived: letters.apply_revived,
    group_words.LetterPurged: letters.apply_purged,
    workflow_facts.WorkflowCreated: workflow_folds.apply_created,
    workflow_facts.WorkflowDeleted: workflow_folds.apply_deleted,
    workflow_facts.WorkflowDisabled: workflow_folds.apply_disabled,
    workflow_facts.WorkflowEnabled: workflow_folds.apply_enabled,
    workflow_facts.WorkflowStarted: workflow_folds.apply_started,
    workflow_facts.StepStarted: workflow_folds.apply_branch,
    workflow_facts.StepHeld: workflow_folds.apply_branch,
    workflow_facts.ActionEnded: workflow_folds.apply_branch,
    workflow_facts.StepEnded: workflow_folds.apply_branch,
    workflow_facts.BranchOpened: workflow_folds.apply_branch,
    workflow_facts.BranchEnded: workflow_folds.apply_branch,
    workflow_facts.BranchClosed: workflow_folds.apply_branch,
    workflow_facts.PlanNoted: workflow_folds.apply_noted,
    workflow_facts.PollExhausted: workflow_folds.apply_noted,
    workflow_facts.ChildCancelled: workflow_folds.apply_child_cancelled,
    workflow_facts.SignalReceived: workflow_folds.apply_execution,
    workflow_facts.SignalMatched: workflow_folds.apply_branch,
    workflow_facts.SignalTimedOut: workflow_folds.apply_branch,
    workflow_facts.WorkflowPaused: workflow_folds.apply_execution,
    workflow_facts.WorkflowResumed: workflow_folds.apply_execution,
    workflow_facts.RollbackBegan: workflow_folds.apply_execution,
    workflow_facts.StepUndone: workflow_folds.apply_execution,
    workflow_facts.WorkflowFinished: workflow_folds.apply_finished,
    workflow_facts.HistoryFiled: workflow_folds.apply_execution,
    workflow_facts.WorkflowAdmitted: workflow_folds.apply_admitted,
    schedule_words.ScheduleSet: schedules.apply_set,
    schedule_words.ScheduleRemoved: schedules.apply_removed,
    schedule_words.ScheduleFired: schedules.apply_fired,
    kv_words.KeyPut: kv.apply_put,
    kv_words.KeyDeleted: kv.apply_deleted,
    kv_words.KeyExpired: kv.apply_deleted,
    kv_words.KeyKept: kv.apply_kept,
    action_words.ModuleStored: actions.apply_stored,
    action_words.ActionRegistered: actions.apply_registered,
    action_words.ActionDeleted: actions.apply_deleted,
    action_words.ActionEnabled: actions.apply_enabled,
    action_words.ActionDisabled: actions.apply_disabled,
    namespace_words.NamespaceCreated: namespaces.apply_created,
    namespace_words.NamespaceDeleted: namespaces.apply_deleted,
    run_words.RunQueued: runs.apply_queued,
    run_words.RunReleased: runs.apply_released,
    run_words.RunsRekeyed: limits.apply_rekeyed,
    run_words.RunClaimed: claims.apply_claimed,
    run_words.RunTouched: reports.apply_touched,
    run_words.RunCompleted: run_ends.apply_completed,
    run_words.RunRequeued: reports.apply_requeued,
    run_words.RunFailed: run_ends.apply_failed,
    run_words.RunTimedOut: run_ends.apply_timed_out,
    run_words.RunCancelled: run_ends.apply_cancelled,
    run_words.RunRevived: dead.apply_revived,
    run_words.RunPurged: dead.apply_purged,
    worker_words.WorkerRegistered: workers.apply_registered,
    worker_words.WorkerDrained: workers.apply_drained,
    worker_words.WorkerDeregistered: workers.apply_deregistered,
}

REACTIONS: dict[type[Event], Reaction] = {
    worker_words.WorkerDeregistered: reports.follow_worker_deregistered,
    run_words.RunCompleted: workflows.follow_run_ended,
    run_words.RunFailed: workflows.follow_run_ended,
    run_words.RunTimedOut: workflows.follow_run_ended,
    run_words.RunCancelled: workflows.follow_run_ended,
    workflow_facts.WorkflowCreated: schedules.follow_deployed,
    workflow_facts.WorkflowDeleted: schedules.follow_deployed,
    workflow_facts.WorkflowDisabled: schedules.follow_deployed,
    workflow_facts.WorkflowEnabled: schedules.follow_deployed,
    workflow_facts.WorkflowStarted: workflows.follow_started,
    workflow_facts.WorkflowAdmitted: workflows.follow_admitted,
    workflow_facts.StepStarted: workflows.follow_step_started,
    workflow_facts.SignalReceived: workflows.follow_signal,
    workflow_facts.WorkflowResumed: workflows.follow_resumed,
    workflow_facts.ChildCancelled: workflows.follow_child_cancelled,
    workflow_facts.WorkflowFinished: workflows.follow_finished,
}

NOTES: dict[type[Event], Callable[[State, Any, VolatileState], None]] = {
    run_words.RunCancelled: runs.note_cancelled,
    workflow_facts.PlanNoted: plans.note_plan,
    workflow_facts.StepEnded: plans.note_step_ended,
    workflow_facts.SignalReceived: plans.note_signal,
}
"""What Live learns from facts."""

FILES: dict[type[Event], Callable[[State, Any], Iterable[Archived]]] = {
    workflow_facts.WorkflowFinished: workflow_folds.archive_run,
    workflow_facts.HistoryFiled: workflow_folds.archive_history,
}
"""What goes to the archive with an event, beside what ends with it."""

ENDS: dict[type[Event], Callable[[State, Any], Archived]] = {
    run_words.RunCompleted: run_ends.archive_run,
    run_words.RunFailed: run_ends.archive_run,
    run_words.RunTimedOut: run_ends.archive_run,
    run_words.RunCancelled: run_ends.archive_run,
    group_words.RecordDied: letters.archive_letter,
}

RETURNS: dict[type[Event], Callable[[State, Any], ArchiveAddress]] = {
    run_words.RunRevived: dead.address_of,
    run_words.RunPurged: dead.address_of,
    group_words.LetterRevived: letters.address_of,
    group_words.LetterPurged: letters.address_of,
}

QUERIES: dict[type[Message], QueryRule] = {
    action_words.GetAction: views.get_action,
    action_words.ListActions: views.list_actions,
    namespace_words.GetNamespace: views.get_namespace,
    namespace_words.ListNamespaces: views.list_namespaces,
    run_words.GetRun: views.get_run,
    run_words.WaitForRuns: views.wait_for_runs,
    run_words.ListRuns: views.list_runs,
    run_words.ListDead: views.list_dead,
    worker_words.GetWorker: views.get_worker,
    worker_words.ListWorkers: views.list_workers,
    worker_words.AwaitNotifications: views.await_notifications,
    workflow_words.ValidateWorkflow: workflow_views.validate,
    workflow_words.GetWorkflow: workflow_views.get_workflow,
    workflow_words.ListWorkflows: workflow_views.list_workflows,
    workflow_words.GetWorkflowRun: workflow_views.get_run,
    workflow_words.WaitForWorkflow: workflow_views.get_run,
    workflow_words.ListWorkflowRuns: workflow_views.list_runs,
    workflow_words.GetHistory: workflow_views.get_history,
    workflow_words.ExplainWorkflow: explain.explain,
    plan_words.GetPlan: plan_views.get_plan,
    schedule_words.GetSchedule: schedules.get_schedule,
    schedule_words.ListSchedules: schedules.list_schedules,
    stream_words.ReadStream: stream_views.read_stream,
    stream_words.GetStream: stream_views.get_stream,
    stream_words.ListStreams: stream_views.list_streams,
    group_words.GetGroup: stream_views.get_group,
    group_words.ListGroups: stream_views.list_groups,
    group_words.ListPending: stream_views.list_pending,
    group_words.ListLetters: letters.list_letters,
    kv_words.GetKey: kv_views.get_key,
    kv_words.GetKeys: kv_views.get_keys,
    kv_words.GetJson: kv_views.get_json,
    kv_words.ScanKeys: kv_views.scan_keys,
    kv_words.GetKeyHistory: kv_views.get_key_history,
}


def settle(state: State, command: Message, context: Context) -> Decision:
    """Carry one command to its end: all its events, already folded into state."""
    decision = decide(state, command, context)
    for observation in decision.observations:
        context.live.observe(observation, context.now_ms)
    if not decision.events and not decision.then:
        return decision
    ahead: list[Iterator[Event]] = [iter(decision.then), iter(decision.events)]
    events: list[Event] = []
    archived: list[Archived] = []
    removed: list[ArchiveAddress] = []
    while ahead:  # what follows on an event comes before what else there is
        event = next(ahead[-1], None)
        if event is None:
            ahead.pop()
            continue
        kind = type(event)
        if kind in ENDS:
            archived.append(ENDS[kind](state, event))
        elif kind in RETURNS:
            removed.append(RETURNS[kind](state, event))
        elif kind in FILES:
            archived.extend(FILES[kind](state, event))
        FOLDS[kind](state, event)
        events.append(event)
        if kind in NOTES:
            NOTES[kind](state, event, context.live)
        if kind in REACTIONS and (further := REACTIONS[kind](state, event, context)):
            ahead.append(iter(further))
        assert len(events) <= EVENTS_PER_COMMAND_MAX
    return Decision(
        decision.reply,
        tuple(events),
        decision.observations,
        tuple(archived),
        tuple(removed),
        decision.chunks,
    )


def decide(state: State, command: Message, context: Context) -> Decision:
    """What the rules say to this command; nothing is changed, and a refusal is raised."""
    try:
        return RULES[type(command)](state, command, context)
    except FloError:
        raise
    except Exception as error:  # our mistake, but nothing has happened yet: refuse and go on
        raise Unexpected(f"{type(command).__name__} could not be decided: {error!r}") from error


def apply(state: State, event: Event) -> None:
    """Fold one event that has happened; replay is this and nothing else."""
    FOLDS[type(event)](state, event)


def answer(state: State, query: Message, context: Context) -> Message:
    """What the state, and what was recalled, say to this question."""
    try:
        return QUERIES[type(query)](state, query, context)
    except FloError:
        raise
    except Exception as error:
        raise Unexpected(f"{type(query).__name__} could not be answered: {error!r}") from error
