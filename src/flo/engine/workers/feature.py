"""Workers: what the machine knows of them."""

from flo.engine.feature import Feature
from flo.engine.workers import long_polls, observations, queries, rules
from flo.engine.workers.events import WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.engine.workers.snapshot import SNAPSHOT
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    Heartbeat,
    ListWorkers,
    RegisterWorker,
)

FEATURE = Feature(
    rules={
        RegisterWorker: rules.decide_register,
        Heartbeat: rules.decide_heartbeat,
        DrainWorker: rules.decide_drain,
        DeregisterWorker: rules.decide_deregister,
    },
    folds={
        WorkerRegistered: rules.apply_registered,
        WorkerDrained: rules.apply_drained,
        WorkerDeregistered: rules.apply_deregistered,
    },
    queries={
        GetWorker: queries.get_worker,
        ListWorkers: queries.list_workers,
        AwaitNotifications: queries.await_notifications,
    },
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    observations=observations.OBSERVATIONS,
    snapshot=SNAPSHOT,
)
