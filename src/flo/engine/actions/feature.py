"""Actions: what the machine knows of them."""

from flo.engine.actions import queries, rules
from flo.engine.actions.events import (
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.engine.actions.snapshot import SNAPSHOT
from flo.engine.feature import Feature
from flo.engine.long_poll import ACTION
from flo.model.actions import (
    DeleteAction,
    DisableAction,
    EnableAction,
    GetAction,
    ListActions,
    RegisterAction,
)

FEATURE = Feature(
    rules={
        RegisterAction: rules.decide_register,
        DeleteAction: rules.decide_delete,
        EnableAction: rules.decide_enable,
        DisableAction: rules.decide_disable,
    },
    folds={
        ModuleStored: rules.apply_stored,
        ActionRegistered: rules.apply_registered,
        ActionDeleted: rules.apply_deleted,
        ActionEnabled: rules.apply_enabled,
        ActionDisabled: rules.apply_disabled,
    },
    queries={
        GetAction: queries.get_action,
        ListActions: queries.list_actions,
    },
    wakes={
        # it may be limited otherwise now
        ActionRegistered: lambda state, event: [(ACTION, event.namespace, event.action.name)],
    },
    payload_lengths={
        RegisterAction: lambda command: len(command.wasm_module or b""),
    },
    snapshot=SNAPSHOT,
)
