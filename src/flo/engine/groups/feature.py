"""Consumer groups: what the machine knows of them."""

from flo.engine.due import GROUP
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.groups import (
    dead_letters,
    long_polls,
    lookups,
    lost_workers,
    observations,
    queries,
    reads,
    rules,
)
from flo.engine.groups.events import (
    ConsumerHeard,
    DeadRecordPurged,
    DeadRecordRevived,
    RecordDied,
)
from flo.engine.groups.snapshot import SNAPSHOT

FEATURE = Feature(
    rules=rules_in(rules, reads, dead_letters),
    folds=folds_in(rules, dead_letters),
    reactions=reactions_in(lost_workers),
    queries=queries_in(queries),
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    archives={
        RecordDied: dead_letters.archive_dead,
    },
    removals={
        DeadRecordRevived: dead_letters.address_of,
        DeadRecordPurged: dead_letters.address_of,
    },
    due={GROUP: rules.fall_due},
    observations={ConsumerHeard: observations.observe_heard},
    snapshot=SNAPSHOT,
)
