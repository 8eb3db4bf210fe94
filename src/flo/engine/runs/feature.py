"""Runs: what the machine knows of them."""

from flo.engine.due import RUN
from flo.engine.feature import Feature
from flo.engine.kv.rules import changes_length
from flo.engine.runs import (
    claims,
    dead_letters,
    ends,
    limits,
    long_polls,
    lookups,
    queries,
    rates,
    reports,
    rules,
)
from flo.engine.runs.events import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunPurged,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunsRekeyed,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.snapshot import SNAPSHOT
from flo.engine.workers.events import RunsBegun, WorkerDeregistered
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListDead,
    ListRuns,
    PurgeDead,
    RequeueDead,
    Touch,
    WaitForRuns,
)

FEATURE = Feature(
    rules={
        Invoke: rules.decide_invoke,
        Claim: claims.decide_claim,
        Complete: reports.decide_complete,
        Fail: reports.decide_fail,
        Touch: reports.decide_touch,
        Cancel: rules.decide_cancel,
        RequeueDead: dead_letters.decide_requeue,
        PurgeDead: dead_letters.decide_purge,
    },
    folds={
        RunQueued: rules.apply_queued,
        RunReleased: rules.apply_released,
        RunsRekeyed: limits.apply_rekeyed,
        RunClaimed: claims.apply_claimed,
        RunTouched: reports.apply_touched,
        RunCompleted: ends.apply_completed,
        RunRequeued: reports.apply_requeued,
        RunFailed: ends.apply_failed,
        RunTimedOut: ends.apply_timed_out,
        RunCancelled: ends.apply_cancelled,
        RunRevived: dead_letters.apply_revived,
        RunPurged: dead_letters.apply_purged,
    },
    reactions={
        WorkerDeregistered: reports.react_worker_deregistered,
    },
    queries={
        GetRun: queries.get_run,
        WaitForRuns: queries.wait_for_runs,
        ListRuns: queries.list_runs,
        ListDead: queries.list_dead,
    },
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    payload_lengths={
        Invoke: lambda command: len(command.input),
        Complete: lambda command: len(command.output) + changes_length(command.changes),
    },
    volatile_folds={
        RunCancelled: rules.note_cancelled,
    },
    archives={
        RunCompleted: ends.archive_run,
        RunFailed: ends.archive_run,
        RunTimedOut: ends.archive_run,
        RunCancelled: ends.archive_run,
    },
    removals={
        RunRevived: dead_letters.address_of,
        RunPurged: dead_letters.address_of,
    },
    due={RUN: reports.fall_due},
    observations={RunsBegun: rates.observe_begun},
    snapshot=SNAPSHOT,
)
