"""Schedules and triggers: what the machine knows of them."""

from flo.engine.due import SCHEDULE
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.groups import lookups
from flo.engine.schedules import queries, rules, triggers
from flo.engine.schedules.snapshot import SNAPSHOT
from flo.model.schedules import (
    PullTrigger,
)

FEATURE = Feature(
    rules=rules_in(rules, triggers),
    folds=folds_in(rules),
    reactions=reactions_in(rules),
    queries=queries_in(queries),
    lookups={
        PullTrigger: lookups.for_read,
    },
    long_polls={
        PullTrigger: triggers.PULL,
    },
    due={SCHEDULE: rules.fall_due},
    snapshot=SNAPSHOT,
)
