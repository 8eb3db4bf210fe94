import pytest

from flo.engine.audit.events import AuditNoted
from flo.engine.callers import CallerNoted
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import DeleteAction, RegisterAction
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.operation import Command
from flo.model.errors import Conflict, NotFound
from flo.model.kv import PutKey
from flo.model.runs import Invoke
from flo.model.safety.audit import ListAudit
from flo.model.storage.caller import SERVER, Caller, Source
from flo.server.audit.shard import AUDITED, COVERED, AuditedShard, target_of
from flo.shard.loop import Shard

ALICE = Caller(source=Source.RPC, address="10.0.0.1", actor="token:alice")


@pytest.fixture
async def shard():
    shard = Shard(State(), MemoryLog())
    await shard.start()
    yield shard
    await shard.stop()


@pytest.fixture
def audited(shard):
    return AuditedShard(shard)


def last_append(shard):
    return list(shard.log.read(0))[-1].events


async def test_an_entry_is_in_the_append_of_what_it_is_about(shard, audited):
    await audited.ask(RegisterAction(name="a"), ALICE)

    note, registered, entry = last_append(shard)
    assert isinstance(note, CallerNoted)
    assert note.operations == (10, 1)
    assert registered.action.name == "a"
    assert (entry.operation, entry.target, entry.outcome) == ("register_action", "a", "allowed")


async def test_what_is_refused_leaves_its_code(shard, audited):
    with pytest.raises(NotFound):
        await audited.ask(DeleteAction(name="a"), ALICE)

    entry = last_append(shard)[-1]
    assert isinstance(entry, AuditNoted)
    assert entry.outcome == "action_not_found"


async def test_who_asked_and_why_is_filed(shard, audited):
    caller = Caller(source=Source.HTTP, address="10.0.0.2", actor="jwt:bob", reason="ticket 7")
    await audited.ask(RegisterAction(name="a"), caller)

    (entry,) = (await shard.ask(ListAudit())).items
    assert (entry.actor, entry.address, entry.reason) == ("jwt:bob", "10.0.0.2", "ticket 7")
    assert entry.position == 2


async def test_what_the_server_does_itself_is_not_audited(shard, audited):
    await audited.ask(RegisterAction(name="a"), SERVER)

    assert not any(isinstance(event, AuditNoted) for event in last_append(shard))


async def test_an_invocation_is_audited_if_a_reason_is_given(shard, audited):
    await audited.ask(RegisterAction(name="a"), SERVER)
    await audited.ask(Invoke(action="a"), ALICE)
    assert not any(isinstance(event, AuditNoted) for event in last_append(shard))

    why = Caller(source=Source.RPC, actor="token:alice", reason="by hand, see ticket 7")
    await audited.ask(Invoke(action="a"), why)

    assert last_append(shard)[-1].operation == "invoke"


async def test_who_may_not_leaves_an_entry_too(shard, audited):
    refusal = Conflict("no", code="forbidden")
    audited.refused(ALICE, None, PutKey(key="k", value=b""), refusal)

    (entry,) = (await shard.ask(ListAudit())).items
    assert (entry.operation, entry.target, entry.outcome) == ("put_key", "k", "forbidden")


async def test_the_audit_outlives_what_it_is_about(shard, audited):
    for number in range(5):
        await audited.ask(RegisterAction(name=f"a{number}", namespace="n"), ALICE)

    page = await shard.ask(ListAudit(namespace="n", limit=2))
    rest = await shard.ask(ListAudit(namespace="n", limit=5, cursor=page.cursor))

    assert [one.target for one in page.items + rest.items] == ["a4", "a3", "a2", "a1", "a0"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_command_is_audited_or_covered_by_the_note_of_its_caller(operation):
    if not issubclass(operation.message, Command) or operation.waits:
        return
    assert (operation.message in AUDITED) is not (operation.permission in COVERED)


def test_a_secret_is_named_as_a_target_and_its_value_is_not():
    from flo.engine.secrets.rules import StoreSecret

    about = target_of(StoreSecret(namespace="n", name="KEY", sealed=b"x", key_id="k"))

    assert (about.operation, about.namespace, about.target) == ("set_secret", "n", "KEY")
