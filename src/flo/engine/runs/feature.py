"""Runs: what the machine knows of them."""

from flo.engine.actions.rates import observe_begun
from flo.engine.due import RUN
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.kv.rules import changes_length
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs import (
    claims,
    dead_letters,
    ends,
    late,
    limits,
    long_polls,
    lookups,
    queries,
    reports,
    rules,
)
from flo.engine.runs.events import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPurged,
    RunQueued,
    RunRevived,
    RunTimedOut,
)
from flo.engine.runs.explain import query
from flo.engine.runs.inputs import spill
from flo.engine.runs.snapshot import SNAPSHOT
from flo.engine.workers.events import RunsBegun
from flo.model.runs import (
    Complete,
    Invoke,
)

FEATURE = Feature(
    rules=rules_in(rules, claims, reports, dead_letters),
    folds=folds_in(rules, limits, claims, reports, late, ends, dead_letters),
    reactions=reactions_in(reports),
    queries=queries_in(queries, query),
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
    spills={RunQueued: spill.spill_input},
    payload_removals={
        RunPurged: spill.input_purged,
        NamespaceDeleted: spill.inputs_deleted,
    },
    due={RUN: reports.fall_due},
    observations={RunsBegun: observe_begun},
    snapshot=SNAPSHOT,
)
