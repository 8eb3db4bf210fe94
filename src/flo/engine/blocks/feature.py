"""Blocks, locks and ledgers: what the machine knows of them."""

from flo.engine.blocks import folds, grants, lookups, queries, registration, remediation, walk
from flo.engine.blocks.events import LedgerClosed
from flo.engine.blocks.snapshot import SNAPSHOT
from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in

FEATURE = Feature(
    rules=rules_in(registration, grants, remediation),
    folds=folds_in(folds),
    reactions=reactions_in(grants, remediation, walk),
    queries=queries_in(queries),
    lookups=lookups.LOOKUPS,
    archives={LedgerClosed: folds.archive_ledger},
    snapshot=SNAPSHOT,
)
