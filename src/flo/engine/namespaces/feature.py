"""Namespaces: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.long_poll import whole_namespace
from flo.engine.namespaces import queries, rules
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.namespaces.snapshot import SNAPSHOT

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    wakes={
        NamespaceDeleted: lambda state, event: [whole_namespace(event.name)],
    },
    snapshot=SNAPSHOT,
)
