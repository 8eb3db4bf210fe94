"""Actions: what the machine knows of them."""

from flo.engine.actions import lookups, queries, rules
from flo.engine.actions.events import (
    ActionRegistered,
)
from flo.engine.actions.snapshot import SNAPSHOT
from flo.engine.feature import Feature, folds_in, queries_in, rules_in
from flo.engine.long_poll import ACTION
from flo.model.actions import (
    RegisterAction,
)

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(rules),
    queries=queries_in(queries),
    lookups=lookups.LOOKUPS,
    wakes={
        # it may be limited otherwise now
        ActionRegistered: lambda state, event: [(ACTION, event.namespace, event.action.name)],
    },
    payload_lengths={
        RegisterAction: lambda command: len(command.wasm_module or b""),
    },
    snapshot=SNAPSHOT,
)
