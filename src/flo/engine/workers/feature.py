"""Workers: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.workers import long_polls, observations, presence, queries, rules
from flo.engine.workers.snapshot import SNAPSHOT

FEATURE = Feature(
    rules=rules_in(rules, presence),
    folds=folds_in(rules, presence),
    queries=queries_in(queries),
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    observations=observations.OBSERVATIONS,
    snapshot=SNAPSHOT,
)
