"""What must be found out before a command goes to its shard."""

import threading

import pytest

from flo.engine.state import State
from flo.engine.workflows import definitions as workflows
from flo.log.memory import MemoryLog
from flo.model.errors import FloError, Invalid
from flo.model.namespaces import DeleteNamespace
from flo.model.workflows import (
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    GetWorkflow,
    ValidateWorkflow,
    WorkflowDeployed,
)
from flo.server.router import Router
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock
from settled import settled

TEXT = """\
kind: Workflow
name: {name}
version: "1"
start:
  sleep: 1s
  transitions: {{success: flo.Completed}}
"""


class Listening:
    """A servant that keeps what it was told."""

    def __init__(self):
        self.told = []

    def serve(self, namespace):
        self.told.append(namespace)


@pytest.fixture
async def shard():
    shard = Shard(State(), MemoryLog(), ManualClock())
    await shard.start()
    yield shard
    await shard.stop()


def threads_that_read(text):
    """In which threads a text is read, from now on; each text is new, so that none is known."""
    workflows.reading_of.cache_clear()
    seen = []

    class Watched(str):
        def __hash__(self):
            seen.append(threading.current_thread())
            return hash(str(self[:]))

    return Watched(text), seen


@pytest.mark.parametrize("message", [CreateWorkflow, ValidateWorkflow])
async def test_a_text_is_read_where_nobody_has_to_wait(shard, message):
    text, threads = threads_that_read(TEXT.format(name="order"))

    await Router(shard).ask(message(text=text))

    assert threads[0] is not threading.main_thread()
    assert workflows.reading_of.cache_info().misses == 1


async def test_a_shard_alone_reads_the_text_itself(shard):
    text, threads = threads_that_read(TEXT.format(name="order"))

    await shard.ask(CreateWorkflow(text=text))

    assert threads[0] is threading.main_thread()


@pytest.mark.parametrize(
    ("message", "is_told"),
    [
        (DisableWorkflow(name="order", namespace="prod"), True),
        (EnableWorkflow(name="order", namespace="prod"), True),
        (DeleteWorkflow(name="order", namespace="prod"), True),
        (CreateWorkflow(text=TEXT.format(name="bill"), namespace="prod"), True),
        (DeleteNamespace(name="prod", force=True), True),
        (GetWorkflow(name="order", namespace="prod"), False),
    ],
)
async def test_triggers_are_told_when_the_workflows_of_a_namespace_change(shard, message, is_told):
    await shard.ask(CreateWorkflow(text=TEXT.format(name="order"), namespace="prod"))
    triggers = Listening()

    await Router(shard, triggers=triggers).ask(message)

    assert triggers.told == (["prod"] if is_told else [])


async def test_nobody_is_told_of_what_was_refused(shard):
    triggers = Listening()

    with pytest.raises(Invalid):
        await Router(shard, triggers=triggers).ask(CreateWorkflow(text="nonsense"))

    assert triggers.told == []


async def test_what_is_submitted_is_read_first_and_answered_too(shard):
    heard = []
    router = Router(shard)

    router.submit([CreateWorkflow(text=TEXT.format(name="order"))], heard.extend)
    router.submit([CreateWorkflow(text="nonsense")], heard.extend)
    while len(heard) < 2:
        await settled()

    assert {type(answer) for answer in heard} == {WorkflowDeployed, Invalid}
    (refusal,) = [answer for answer in heard if isinstance(answer, FloError)]
    assert refusal.code == "invalid_workflow"
