"""Streams: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.streams import long_polls, lookups, queries, rules
from flo.engine.streams.snapshot import SNAPSHOT
from flo.model.streams import (
    Append,
)

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    payload_lengths={
        Append: lambda command: sum(len(record.payload) for record in command.records),
    },
    snapshot=SNAPSHOT,
)
