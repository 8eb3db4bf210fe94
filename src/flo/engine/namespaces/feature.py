"""Namespaces: what the machine knows of them."""

from flo.engine import queries
from flo.engine.feature import Feature
from flo.engine.namespaces import rules
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
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
)
