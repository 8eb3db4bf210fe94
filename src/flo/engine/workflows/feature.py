"""Workflows: what the machine knows of them."""

from flo.engine.due import WORKFLOW
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.workflows import (
    children,
    definitions,
    explain,
    folds,
    long_polls,
    lookups,
    queries,
    rules,
)
from flo.engine.workflows.blocks import acquire
from flo.engine.workflows.calls import late, pages
from flo.engine.workflows.events import (
    HistoryFiled,
    StepReportedLate,
    WorkflowDeleted,
    WorkflowFinished,
)
from flo.engine.workflows.snapshot import SNAPSHOT

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(folds, late),
    reactions=reactions_in(rules, children, late, acquire),
    queries=queries_in(queries, explain, pages),
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    archives={
        WorkflowFinished: folds.archive_run,
        HistoryFiled: folds.archive_history,
        StepReportedLate: late.archive_late,
        WorkflowDeleted: definitions.archive_deleted,
    },
    due={WORKFLOW: rules.fall_due},
    snapshot=SNAPSHOT,
)
