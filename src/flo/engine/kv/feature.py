"""Keys and values: what the machine knows of them."""

from flo.engine.due import KEY
from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.kv import long_polls, observations, queries, rules
from flo.engine.kv.snapshot import SNAPSHOT
from flo.model.kv import (
    PutKey,
    SetJson,
    Transact,
)

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    payload_lengths={
        PutKey: lambda command: len(command.value),
        SetJson: lambda command: len(command.document),
        Transact: lambda command: rules.changes_length(command.changes),
    },
    due={KEY: rules.fall_due},
    observations=observations.OBSERVATIONS,
    snapshot=SNAPSHOT,
)
