"""Bugs in workflows, schedules and triggers that the simulation must find."""

from msgspec.structs import replace

from flo.engine.groups.events import RecordsAcked
from flo.engine.long_poll import WORKFLOW_RUN
from flo.engine.machine import ARCHIVES, FOLDS, QUERIES, REACTIONS, RULES
from flo.engine.plans.events import BreakerTurned
from flo.engine.runs import rules
from flo.engine.runs.events import RunCompleted, RunRequeued
from flo.engine.runs.records import RunCause
from flo.engine.schedules import rules as schedules
from flo.engine.schedules import triggers
from flo.engine.schedules.events import ScheduleFired
from flo.engine.workflows import execution as executions
from flo.engine.workflows import folds as workflow_folds
from flo.engine.workflows import queries as workflow_views
from flo.engine.workflows import rules as workflows
from flo.engine.workflows.advance import base, steps, wakes
from flo.engine.workflows.advance import ends as workflow_ends
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import EndAttempt, EnterStep, Finish
from flo.engine.workflows.advance.stepper import PARTS, carry_out
from flo.engine.workflows.calls import pages
from flo.engine.workflows.events import (
    ActionEnded,
    AttemptLeftUnknown,
    RollbackBegan,
    SignalMatched,
    SignalTimedOut,
    StepStarted,
    WorkflowAdmitted,
    WorkflowDeleted,
    WorkflowFinished,
    WorkflowPaused,
)
from flo.engine.workflows.lists.live import LiveExecutions
from flo.model.executions.history import GetHistory
from flo.model.executions.steps import GetSteps
from flo.model.schedules import PullTrigger
from flo.model.workflows import (
    BranchPhase,
)
from flo.workflow.outcome import StepError
from simulation.control import control, every_control, wake_nobody
from simulator.checks.invariants import Invariant


@control(Invariant.BREAKERS_TURN)
def breakers_are_said_to_open_again_and_again(monkeypatch):
    monkeypatch.setitem(FOLDS, BreakerTurned, lambda state, event: None)


@control(Invariant.OUTCOME_HEARD)
def an_outcome_is_not_heard(monkeypatch):
    monkeypatch.delitem(REACTIONS, RunCompleted)


@control(Invariant.LISTS_RIGHT, audited=True)
def a_run_that_waits_is_listed_as_pending(monkeypatch):
    monkeypatch.setattr(LiveExecutions, "note_status", lambda executions, execution: None)


@control(Invariant.SINCE_RIGHT, audited=True)
def branches_do_not_know_since_when_they_wait(monkeypatch):
    monkeypatch.setattr(workflow_folds, "_waits_otherwise", lambda before, after: False)


@control(Invariant.OUTCOME_COUNTED_ONCE)
def an_attempt_is_taken_for_the_end(monkeypatch):
    def react_requeued(state, event, context):
        space = state.spaces[event.namespace]
        if event.run_id not in space.awaited:
            return ()
        run_id, branch = space.awaited[event.run_id]
        advance = Advance(state, event.namespace, space.executions[run_id], context)
        error = StepError(message=event.error, code="failure")
        return carry_out(
            advance, wakes.end_wait(advance, branch, "failure", b"", error, answered=True)
        )

    monkeypatch.setitem(REACTIONS, RunRequeued, react_requeued)


@control(Invariant.FINAL_IS_NOT_RETRIED)
def everything_is_retried(monkeypatch):
    def end_attempt(advance, move):
        error = move.error and replace(move.error, retryable=True)
        return steps.end_attempt(advance, move._replace(error=error))

    monkeypatch.setitem(PARTS, EndAttempt, end_attempt)


@control(Invariant.CODES_KEPT, follows=Invariant.ARCHIVE_REPLAYS)
def a_step_forgets_the_code_of_its_run(monkeypatch):
    monkeypatch.setattr(
        wakes, "ActionEnded", lambda **fields: ActionEnded(**{**fields, "error_code": None})
    )


@control(Invariant.SUBJECT_KEPT, audited=True)
def a_run_is_queued_about_nobody(monkeypatch):
    def queue_run(*given, subject, **fields):
        return rules.queue_run(*given, **fields)

    monkeypatch.setattr(base, "queue_run", queue_run)


@control(Invariant.CAUSES_TOLD)
def a_run_is_queued_for_the_attempt_before(monkeypatch):
    def cause_before(**fields):
        return RunCause(**{**fields, "attempt": max(1, fields["attempt"] - 1)})

    monkeypatch.setattr(base, "RunCause", cause_before)


@control(Invariant.STEPS_IN_ORDER)
def steps_begin_before_the_one_before_has_ended(monkeypatch):
    call = steps.call

    def call_and_go_on(advance, move):
        moves = call(advance, move)
        step = advance.execution.definition.step_named("bring")
        if move.branch == "" and move.now.step == "start" and step is not None:
            return (*moves, EnterStep(move.branch, "bring"))
        return moves

    monkeypatch.setattr(steps, "call", call_and_go_on)


@control(Invariant.CIRCLES_END)
def a_sleep_of_no_length_is_a_wait(monkeypatch):
    fold = executions.EXECUTION_FOLDS[StepStarted]

    def begin_step(execution, event):
        fold(execution, event)
        if event.now.phase is BranchPhase.SLEEP:
            execution.steps_since_wait.clear()

    monkeypatch.setitem(executions.EXECUTION_FOLDS, StepStarted, begin_step)


@control(Invariant.STATE_IS_THE_REFERENCE, audited=True)
def a_signal_that_did_not_come_leaves_no_outcome(monkeypatch):
    def miss(execution, event):
        now = execution.branches[event.branch]
        between = replace(now, phase=BranchPhase.BETWEEN, until_ms=None)
        execution.branches[event.branch] = between

    monkeypatch.setitem(executions.EXECUTION_FOLDS, SignalTimedOut, miss)


@control(Invariant.ROLLBACK_ORDER)
def steps_are_undone_in_the_order_they_were_done(monkeypatch):
    def rollback_began(**fields):
        return RollbackBegan(**{**fields, "steps": fields["steps"][::-1]})

    monkeypatch.setattr(workflow_ends, "RollbackBegan", rollback_began)


@control(Invariant.ROLLBACK_ORDER)
def what_was_done_is_left_as_it_is(monkeypatch):
    def finish_at_once(advance, move):
        advance.execution.done = []
        return workflow_ends.finish(advance, move)

    monkeypatch.setitem(PARTS, Finish, finish_at_once)


@control(Invariant.ATTEMPTS_UNDONE)
def an_attempt_that_was_given_up_is_forgotten(monkeypatch):
    monkeypatch.delitem(REACTIONS, RunRequeued)


@control(Invariant.ROLLBACK_ORDER)
def an_attempt_that_may_have_happened_is_left_as_it_is(monkeypatch):
    monkeypatch.setitem(executions.EXECUTION_FOLDS, AttemptLeftUnknown, lambda *_: None)


@control(Invariant.ENDS_IN_A_TERMINAL)
def runs_end_where_nobody_said(monkeypatch):
    def finished(**fields):
        return WorkflowFinished(
            **{**fields, "ending": replace(fields["ending"], terminal="Nowhere")}
        )

    monkeypatch.setattr(workflow_ends, "WorkflowFinished", finished)


@control(Invariant.WORKFLOWS_END_ONCE)
def a_run_that_has_ended_goes_on(monkeypatch):
    monkeypatch.setitem(FOLDS, WorkflowFinished, lambda state, event: None)


@control(Invariant.VERSIONS_MEAN_ONE_TEXT)
def versions_that_were_deleted_are_forgotten(monkeypatch):
    def apply_deleted(state, event):
        workflow_folds.apply_deleted(state, event)
        state.spaces[event.namespace].deleted_versions.recent.clear()

    monkeypatch.setitem(FOLDS, WorkflowDeleted, apply_deleted)


@control(Invariant.ARCHIVED_AT_END)
def ends_are_not_archived(monkeypatch):
    monkeypatch.delitem(ARCHIVES, WorkflowFinished)


@control(Invariant.PERMITS_BOUNDED)
def permits_are_not_counted(monkeypatch):
    def admitted(state, namespace, key, context):
        permits = state.spaces[namespace].workflow_permits.get(key)
        for run_id in list(permits.waiting) if permits is not None else ():
            yield WorkflowAdmitted(namespace=namespace, run_id=run_id, at_ms=context.now_ms)

    monkeypatch.setattr(workflows, "_admitted", admitted)


@control(Invariant.PERMITS_RIGHT, audited=True)
def permits_are_leaked(monkeypatch):
    def leave_the_line(space, run):
        if run.limit_key is not None:
            space.workflow_permits[run.workflow, run.limit_key].waiting.pop(run.run_id, None)

    monkeypatch.setattr(workflow_folds, "_give_back_permit", leave_the_line)


@control(Invariant.ONE_RUN_PER_RECORD)
def a_trigger_keeps_its_place(monkeypatch):
    def pull(state, command, context):
        decision = triggers.decide_pull(state, command, context)
        events = [event for event in decision.events if not isinstance(event, RecordsAcked)]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, PullTrigger, pull)


@control(Invariant.ONE_RUN_PER_RECORD)
def a_trigger_moves_on_without_a_run(monkeypatch):
    def pull(state, command, context):
        return replace(triggers.decide_pull(state, command, context), then=())

    monkeypatch.setitem(RULES, PullTrigger, pull)


@control(Invariant.SCHEDULES_FIRE_ONCE)
def a_time_comes_again(monkeypatch):
    def apply_fired(state, event):
        schedules.apply_fired(state, replace(event, next_at_ms=event.due_at_ms))

    monkeypatch.setitem(FOLDS, ScheduleFired, apply_fired)


@control(Invariant.STATE_IS_THE_REFERENCE, audited=True)
def signals_are_used_again(monkeypatch):
    monkeypatch.setitem(FOLDS, SignalMatched, lambda state, event: None)


@control(Invariant.PAUSED_BEGINS_NOTHING)
def pauses_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, WorkflowPaused, lambda state, event: None)


@control(Invariant.HISTORIES_WHOLE)
def a_history_leaves_outcomes_out(monkeypatch):
    def get_history(state, query, context):
        page = workflow_views.get_history(state, query, context)
        items = [line for line in page.items if line.type != "action_completed"]
        return replace(page, items=items)

    monkeypatch.setitem(QUERIES, GetHistory, get_history)


@control(Invariant.STEPS_TOLD)
def steps_leave_calls_out(monkeypatch):
    def get_steps(state, query, context):
        page = pages.get_steps(state, query, context)
        return replace(page, items=[call for call in page.items if call.outcome != "failure"])

    monkeypatch.setitem(QUERIES, GetSteps, get_steps)


@control(Invariant.ARCHIVE_REPLAYS)
def an_output_in_the_archive_is_altered(monkeypatch):
    """Of a step whose output another one is given."""

    def record_of(*given):
        record = folds_record_of(*given)
        results = {
            step: replace(result, output=result.output and result.output + b" ")
            for step, result in record.results.items()
        }
        return replace(record, results=results)

    folds_record_of = workflow_folds.record_of
    monkeypatch.setattr(workflow_folds, "record_of", record_of)


@control(Invariant.WAITS_WAKE)
def parked_waits_for_workflows_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, WORKFLOW_RUN)


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
