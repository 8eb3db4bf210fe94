"""The audit: what the machine knows of it."""

from flo.engine.audit import queries, rules
from flo.engine.audit.events import AuditNoted
from flo.engine.audit.records import archive_entry
from flo.engine.audit.snapshot import SNAPSHOT
from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.model.safety.audit import ListAudit

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    lookups={ListAudit: queries.lookups_of},
    archives={AuditNoted: archive_entry},
    snapshot=SNAPSHOT,
)
