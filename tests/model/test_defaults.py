"""The defaults and bounds that the published pages of Flo promise."""

import msgspec
import pytest

from flo.engine.actions.records import Action
from flo.model import ids
from flo.model.actions import RegisterAction
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Claim, Complete, Fail, Invoke, RequeueDeadRuns, RunStatus, Touch
from flo.model.workers import (
    SILENCE_MS_MAX,
    WORKERS_MAX,
    AwaitNotifications,
    RegisterWorker,
    WorkerStatus,
    WorkerType,
)


def defaults_of(struct, *names):
    fields = {field.name: field.default for field in msgspec.structs.fields(struct)}
    return {name: fields[name] for name in names}


@pytest.mark.parametrize(
    ("struct", "defaults"),
    [
        (RegisterAction, {"timeout_ms": 30_000, "max_retries": 3, "retry_delay_ms": 1_000}),
        (Action, {"version": 1, "enabled": True}),
        (Invoke, {"priority": 10, "delay_ms": 0, "namespace": "default"}),
        (Claim, {"max_tasks": 1, "block_ms": 0}),
        (Complete, {"outcome": "success"}),
        (Fail, {"retry": False, "dead_letter": True}),
        (Touch, {"extend_ms": 30_000}),
        (RequeueDeadRuns, {"ids": None, "limit": 100}),
        (RegisterWorker, {"max_concurrency": 10, "worker_type": "action", "metadata": None}),
        (AwaitNotifications, {"after": 0, "block_ms": 30_000}),
        (DeleteNamespace, {"force": False}),
    ],
)
def test_what_is_not_said_is_as_documented(struct, defaults):
    assert defaults_of(struct, *defaults) == defaults


def test_the_documented_statuses_are_the_statuses():
    assert {*RunStatus} == {"pending", "running", "completed", "failed", "cancelled", "timed_out"}
    assert {*WorkerStatus} == {"active", "idle", "draining", "unhealthy"}
    assert {*WorkerType} == {"action", "stream", "pipeline", "block"}


def test_the_documented_bounds_are_the_bounds():
    assert ids.ACTION_NAME_LENGTH_MAX == 256
    assert WORKERS_MAX == 10_000
    assert SILENCE_MS_MAX == 90_000
