"""Schedules and triggers: what the machine knows of them."""

from flo.engine.due import SCHEDULE
from flo.engine.feature import Feature
from flo.engine.groups import lookups
from flo.engine.schedules import queries, rules, triggers
from flo.engine.schedules.events import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.engine.schedules.snapshot import SNAPSHOT
from flo.engine.workflows.events import (
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
)
from flo.model.schedules import (
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    PullTrigger,
    ResumeSchedule,
    RunSchedule,
    SkipSchedule,
)

FEATURE = Feature(
    rules={
        PauseSchedule: rules.decide_pause,
        ResumeSchedule: rules.decide_resume,
        SkipSchedule: rules.decide_skip,
        RunSchedule: rules.decide_run_now,
        PullTrigger: triggers.decide_pull,
    },
    folds={
        ScheduleSet: rules.apply_set,
        ScheduleRemoved: rules.apply_removed,
        ScheduleFired: rules.apply_fired,
    },
    reactions={
        WorkflowCreated: rules.react_deployed,
        WorkflowDeleted: rules.react_deployed,
        WorkflowDisabled: rules.react_deployed,
        WorkflowEnabled: rules.react_deployed,
    },
    queries={
        GetSchedule: queries.get_schedule,
        ListSchedules: queries.list_schedules,
    },
    lookups={
        PullTrigger: lookups.for_read,
    },
    long_polls={
        PullTrigger: triggers.PULL,
    },
    due={SCHEDULE: rules.fall_due},
    snapshot=SNAPSHOT,
)
