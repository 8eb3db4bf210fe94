"""Keys and values: what the machine knows of them."""

from flo.engine.due import KEY
from flo.engine.feature import Feature
from flo.engine.kv import long_polls, observations, queries, rules
from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyKept, KeyPut
from flo.engine.kv.snapshot import SNAPSHOT
from flo.model.kv import (
    BeginTransaction,
    CommitTransaction,
    DeleteJson,
    DeleteKey,
    ExpireKey,
    GetJson,
    GetKey,
    GetKeyHistory,
    GetKeys,
    IncrementKey,
    PutKey,
    ReadInTransaction,
    RollbackTransaction,
    ScanKeys,
    SetJson,
    Transact,
)

FEATURE = Feature(
    rules={
        PutKey: rules.decide_put,
        DeleteKey: rules.decide_delete,
        IncrementKey: rules.decide_increment,
        ExpireKey: rules.decide_expire,
        SetJson: rules.decide_set_json,
        DeleteJson: rules.decide_delete_json,
        Transact: rules.decide_transact,
        BeginTransaction: rules.decide_begin,
        CommitTransaction: rules.decide_commit,
        RollbackTransaction: rules.decide_rollback,
        ReadInTransaction: rules.decide_read,
    },
    folds={
        KeyPut: rules.apply_put,
        KeyDeleted: rules.apply_deleted,
        KeyExpired: rules.apply_deleted,
        KeyKept: rules.apply_kept,
    },
    queries={
        GetKey: queries.get_key,
        GetKeys: queries.get_keys,
        GetJson: queries.get_json,
        ScanKeys: queries.scan_keys,
        GetKeyHistory: queries.get_key_history,
    },
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    payload_lengths={
        PutKey: lambda command: len(command.value),
        SetJson: lambda command: len(command.document),
        Transact: lambda command: rules.changes_length(command.changes),
    },
    due={KEY: rules.fall_due},
    observations=observations.OBSERVATIONS,
    snapshot=SNAPSHOT,
)
