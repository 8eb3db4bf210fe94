"""Access: what the machine knows of tokens."""

from flo.engine.access import queries, rules
from flo.engine.access.snapshot import SNAPSHOT
from flo.engine.feature import Feature, folds_in, queries_in, rules_in

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    snapshot=SNAPSHOT,
)
