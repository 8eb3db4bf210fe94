"""Secrets: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.secrets import queries, rules
from flo.engine.secrets.snapshot import SNAPSHOT

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    snapshot=SNAPSHOT,
)
