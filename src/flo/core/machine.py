"""The machine: a command is decided by its rule, its events are folded and followed.

command ──RULES──▸ events ──FOLDS──▸ state
                     ▲  └──FOLLOWS──▸ further events ─┐
                     └────────────────────────────────┘
question ──VIEWS──▸ reply
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from flo.core import actions, runs, views, workers
from flo.core.decision import Decision
from flo.core.moment import Moment
from flo.core.state import State
from flo.model import actions as action_words
from flo.model import runs as run_words
from flo.model import workers as worker_words
from flo.model.archive import Archived
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
    run_words.Invoke: runs.decide_invoke,
    run_words.Claim: runs.decide_claim,
    run_words.Complete: runs.decide_complete,
    run_words.Fail: runs.decide_fail,
    run_words.Touch: runs.decide_touch,
    run_words.Tick: runs.decide_tick,
    worker_words.RegisterWorker: workers.decide_register,
    worker_words.Heartbeat: workers.decide_heartbeat,
    worker_words.DrainWorker: workers.decide_drain,
    worker_words.DeregisterWorker: workers.decide_deregister,
}

FOLDS: dict[type[Fact], Fold] = {
    action_words.ActionRegistered: actions.apply_registered,
    action_words.ActionDeleted: actions.apply_deleted,
    run_words.RunQueued: runs.apply_queued,
    run_words.RunReleased: runs.apply_released,
    run_words.RunClaimed: runs.apply_claimed,
    run_words.RunTouched: runs.apply_touched,
    run_words.RunCompleted: runs.apply_completed,
    run_words.RunRequeued: runs.apply_requeued,
    run_words.RunFailed: runs.apply_failed,
    run_words.RunTimedOut: runs.apply_timed_out,
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
}

VIEWS: dict[type[Word], View] = {
    action_words.GetAction: views.get_action,
    action_words.ListActions: views.list_actions,
    run_words.GetRun: views.get_run,
    run_words.WaitForRuns: views.wait_for_runs,
    run_words.ListRuns: views.list_runs,
    worker_words.GetWorker: views.get_worker,
    worker_words.ListWorkers: views.list_workers,
}


def settle(state: State, command: Word, moment: Moment) -> Decision:
    """Carry one command to its end: all its events, already folded into state."""
    decision = decide(state, command, moment)
    for sign in decision.signs:
        moment.live.observe(sign, moment.now_ms)
    if not decision.events:
        return decision
    events = list(decision.events)
    archived = []
    for event in events:  # grows while it is walked
        kind = type(event)
        if (end := ENDS.get(kind)) is not None:
            archived.append(end(state, event))
        FOLDS[kind](state, event)
        if (follow := FOLLOWS.get(kind)) is not None:
            events.extend(follow(state, event, moment))
        assert len(events) <= EVENTS_PER_COMMAND_MAX
    if len(events) == len(decision.events) and not archived:
        return decision
    return Decision(decision.reply, tuple(events), decision.signs, tuple(archived))


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
