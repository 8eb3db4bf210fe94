"""Pipelines: what the machine knows of them."""

from flo.engine.due import PIPELINE, PIPELINE_NODE
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.pipelines import (
    advance,
    archive,
    folds,
    long_polls,
    lookups,
    queries,
    rules,
)
from flo.engine.pipelines.events import PipelineClosed
from flo.engine.pipelines.nodes import intake, reports, work
from flo.engine.pipelines.snapshot import SNAPSHOT
from flo.model.pipelines.work import CompleteNode, PutArtifact, ReportBatch

FEATURE = Feature(
    rules=rules_in(rules, work, reports, intake),
    folds=folds_in(folds),
    reactions=reactions_in(advance),
    queries=queries_in(queries),
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    archives={PipelineClosed: archive.archive_pipeline},
    payload_lengths={
        ReportBatch: lambda command: len(command.meta),
        CompleteNode: lambda command: len(command.meta),
        PutArtifact: lambda command: len(command.meta),
    },
    due={PIPELINE: rules.fall_due, PIPELINE_NODE: rules.node_falls_due},
    snapshot=SNAPSHOT,
)
