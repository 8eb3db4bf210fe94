"""Namespaces: what the machine knows of them."""

from flo.engine.feature import Feature
from flo.engine.long_poll import whole_namespace
from flo.engine.namespaces import queries, rules
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.engine.namespaces.snapshot import SNAPSHOT
from flo.model.namespaces import CreateNamespace, DeleteNamespace, GetNamespace, ListNamespaces

FEATURE = Feature(
    rules={
        CreateNamespace: rules.decide_create,
        DeleteNamespace: rules.decide_delete,
    },
    folds={
        NamespaceCreated: rules.apply_created,
        NamespaceDeleted: rules.apply_deleted,
    },
    queries={
        GetNamespace: queries.get_namespace,
        ListNamespaces: queries.list_namespaces,
    },
    wakes={
        NamespaceDeleted: lambda state, event: [whole_namespace(event.name)],
    },
    snapshot=SNAPSHOT,
)
