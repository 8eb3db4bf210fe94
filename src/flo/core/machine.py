"""The machine: a command is decided by its rule, its events are folded and followed.

command ──RULES──▸ events ──FOLDS──▸ state
                     ▲  └──FOLLOWS──▸ further events ─┐
                     └────────────────────────────────┘
question ──VIEWS──▸ reply
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from flo.core import actions, dead, namespaces, runs, views, workers
from flo.core.decision import Decision
from flo.core.moment import Moment
from flo.core.state import State
from flo.model import actions as action_words
from flo.model import namespaces as namespace_words
from flo.model import runs as run_words
from flo.model import workers as worker_words
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Fact, Word
from flo.model.errors import FloError, Unexpected

EVENTS_PER_COMMAND_MAX = 100_000

Rule: TypeAlias = Callable[[State, Any, Moment], Decision]
Fold: TypeAlias = Callable[[State, Any], None]
Follow: TypeAlias = Callable[[State, Any, Moment], Iterable[Fact]]
View: TypeAlias = Callable[[State, Any, Moment], Word]

RULES: dict[type[Word], Rule] = {
    action_words.RegisterAction: actions.decide_register,
    action_words.DeleteAction: actions.decide_delete,
    action_words.EnableAction: actions.decide_enable,
    action_words.DisableAction: actions.decide_disable,
    namespace_words.CreateNamespace: namespaces.decide_create,
    namespace_words.DeleteNamespace: namespaces.decide_delete,
    run_words.Invoke: runs.decide_invoke,
    run_words.Claim: runs.decide_claim,
    run_words.Complete: runs.decide_complete,
    run_words.Fail: runs.decide_fail,
    run_words.Touch: runs.decide_touch,
    run_words.Cancel: runs.decide_cancel,
    run_words.RequeueDead: dead.decide_requeue,
    run_words.PurgeDead: dead.decide_purge,
    run_words.Tick: runs.decide_tick,
    worker_words.RegisterWorker: workers.decide_register,
    worker_words.Heartbeat: workers.decide_heartbeat,
    worker_words.DrainWorker: workers.decide_drain,
    worker_words.DeregisterWorker: workers.decide_deregister,
}

FOLDS: dict[type[Fact], Fold] = {
    action_words.ActionRegistered: actions.apply_registered,
    action_words.ActionDeleted: actions.apply_deleted,
    action_words.ActionEnabled: actions.apply_enabled,
    action_words.ActionDisabled: actions.apply_disabled,
    namespace_words.NamespaceCreated: namespaces.apply_created,
    namespace_words.NamespaceDeleted: namespaces.apply_deleted,
    run_words.RunQueued: runs.apply_queued,
    run_words.RunReleased: runs.apply_released,
    run_words.RunClaimed: runs.apply_claimed,
    run_words.RunTouched: runs.apply_touched,
    run_words.RunCompleted: runs.apply_completed,
    run_words.RunRequeued: runs.apply_requeued,
    run_words.RunFailed: runs.apply_failed,
    run_words.RunTimedOut: runs.apply_timed_out,
    run_words.RunCancelled: runs.apply_cancelled,
    run_words.RunRevived: dead.apply_revived,
    run_words.RunPurged: dead.apply_purged,
    worker_words.WorkerRegistered: workers.apply_registered,
    worker_words.WorkerDrained: workers.apply_drained,
    worker_words.WorkerDeregistered: workers.apply_deregistered,
}

FOLLOWS: dict[type[Fact], Follow] = {
    worker_words.WorkerDeregistered: runs.follow_worker_deregistered,
}

ENDS: dict[type[Fact], Callable[[State, Any], Archived]] = {
    run_words.RunCompleted: runs.archive_run,
    run_words.RunFailed: runs.archive_run,
    run_words.RunTimedOut: runs.archive_run,
    run_words.RunCancelled: runs.archive_run,
}

RETURNS: dict[type[Fact], Callable[[State, Any], ArchiveAddress]] = {
    run_words.RunRevived: dead.address_of,
    run_words.RunPurged: dead.address_of,
}

VIEWS: dict[type[Word], View] = {
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
    worker_words.AwaitNews: views.await_news,
}


def settle(state: State, command: Word, moment: Moment) -> Decision:
    """Carry one command to its end: all its events, already folded into state."""
    decision = decide(state, command, moment)
    for sign in decision.signs:
        moment.live.observe(sign, moment.now_ms)
    if not decision.events:
        return decision
    events = list(decision.events)
    archived, removed = [], []
    for event in events:  # grows while it is walked
        kind = type(event)
        if (end := ENDS.get(kind)) is not None:
            archived.append(end(state, event))
        elif (back := RETURNS.get(kind)) is not None:
            removed.append(back(state, event))
        FOLDS[kind](state, event)
        if (follow := FOLLOWS.get(kind)) is not None:
            events.extend(follow(state, event, moment))
        assert len(events) <= EVENTS_PER_COMMAND_MAX
    return Decision(decision.reply, tuple(events), decision.signs, tuple(archived), tuple(removed))


def decide(state: State, command: Word, moment: Moment) -> Decision:
    """What the rules say to this command; nothing is changed, and a refusal is raised."""
    try:
        return RULES[type(command)](state, command, moment)
    except FloError:
        raise
    except Exception as error:  # our mistake, but nothing has happened yet: refuse and go on
        raise Unexpected(f"{type(command).__name__} could not be decided: {error!r}") from error


def apply(state: State, event: Fact) -> None:
    """Fold one event that has happened; replay is this and nothing else."""
    FOLDS[type(event)](state, event)


def answer(state: State, question: Word, moment: Moment) -> Word:
    """What the state, and what was recalled, say to this question."""
    try:
        return VIEWS[type(question)](state, question, moment)
    except FloError:
        raise
    except Exception as error:
        raise Unexpected(f"{type(question).__name__} could not be answered: {error!r}") from error
