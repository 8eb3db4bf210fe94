"""Every import path of FlowKit, those of its documentation included."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import flo
import flowkit

OF_FLO = ("flo", "flo.core", "flo.model")
"""What this package may use of flo: its public face, and what travels."""

PATHS = {
    "flowkit": "Coordinator CoordinatorConfig WorkerConfig __version__ open_db",
    "flowkit.worker": (
        "Worker RoleHandler Batch BatchResult FinalizeResult EchoHandler WorkerConfig"
    ),
    "flowkit.worker.runner": "Worker WorkerConfig",
    "flowkit.worker.handlers.base": (
        "RoleHandler Batch BatchResult FinalizeResult Handler RunContext"
    ),
    "flowkit.worker.handlers.echo": "EchoHandler",
    "flowkit.worker.context": "RunContext",
    "flowkit.worker.artifacts": "ArtifactsWriter",
    "flowkit.worker.state": "ActiveRun LocalStateManager",
    "flowkit.worker.input.pull_adapters": "PullAdapters build_input_adapters",
    "flowkit.coordinator": "Coordinator",
    "flowkit.coordinator.runner": (
        "Coordinator CoordinatorConfig RunState Envelope MsgType Role EventKind EvHeartbeat "
        "EvTaskFailed EvTaskDone EvTaskAccepted EvBatchOk EvBatchFailed EvCancelled"
    ),
    "flowkit.coordinator.adapters": (
        "AdapterError CoordinatorAdapters default_adapters SensitiveDetectorProto"
    ),
    "flowkit.core.config": "CoordinatorConfig WorkerConfig",
    "flowkit.core.time": "Clock SystemClock ManualClock",
    "flowkit.core.utils": "stable_hash dumps loads jitter_ms",
    "flowkit.core.log": "get_logger log_context warn_once swallow configure_from_env",
    "flowkit.protocol.messages": (
        "RunState MsgType Role EventKind CommandKind QueryKind ReplyKind Envelope CmdTaskStart "
        "EvWorkerOnline EvWorkerOffline RTaskSnapshot QTaskDiscover SigCancel"
    ),
    "flowkit.bus.kafka": "KafkaBus",
    "flowkit.outbox.dispatcher": "OutboxDispatcher",
}


@pytest.mark.parametrize("path", PATHS)
def test_the_path_has_its_names(path):
    module = import_module(path)

    assert not [name for name in PATHS[path].split() if not hasattr(module, name)]


def test_handlers_are_those_of_flo():
    base = import_module("flowkit.worker.handlers.base")

    assert base.RoleHandler is base.Handler is flo.RoleHandler
    assert base.BatchResult is flo.BatchResult


def test_a_state_reads_as_its_member():
    state = import_module("flowkit.protocol.messages").RunState.running

    assert str(state) == "RunState.running"
    assert state == "running"
    assert f"{state.value}" == "running"


def test_an_envelope_there_and_back():
    messages = import_module("flowkit.protocol.messages")
    payload = messages.EvBatchOk(worker_id="w", batch_uid="b", metrics={"n": 1}).model_dump()
    envelope = messages.Envelope(
        msg_type="event",
        role="worker",
        dedup_id="d",
        task_id="t",
        node_id="n",
        step_type="s",
        attempt_epoch=1,
        payload=payload,
    )

    again = messages.Envelope.model_validate({**envelope.model_dump(), "unknown": 1})

    assert again == envelope
    assert again.msg_type is messages.MsgType.event
    with pytest.raises(TypeError):
        messages.Envelope.model_validate({"msg_type": "event"})


def test_nothing_is_used_of_flo_but_its_public_face_and_what_travels():
    root = Path(flowkit.__file__).parent
    used = {
        name
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name.split(".")[0] == "flo"
    }

    assert "flo" in used
    assert not {name for name in used if ".".join(name.split(".")[:2]) not in OF_FLO}


def _imported(node):
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
