import pytest

from flo.core.sealing import KeyRing
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict
from flo.model.runs import Claim, Complete, GetRun, Invoke
from flo.model.safety.secrets import DeleteSecret, ListSecrets, RotateKey, SetSecret
from flo.model.storage.caller import SERVER
from flo.model.workers import RegisterWorker
from flo.server.router import Router
from flo.server.vault.door import VaultDoor
from flo.server.vault.redaction import Redactor
from flo.server.vault.vault import Vault
from flo.shard.loop import Shard

VALUE = "correct horse battery"
KEYS = [bytes([number]) * 32 for number in (1, 2)]


class Scene:
    def __init__(self, shard):
        self.keys = KEYS[:1]
        self.shard = shard
        self.vault = Vault(shard, lambda: KeyRing(self.keys) if self.keys else None)
        self.door = VaultDoor(Router(shard), self.vault)

    async def ask(self, message):
        return await self.door.ask(message, SERVER)

    async def task(self, input=b"{}", secrets=("KEY",)):
        await self.ask(RegisterAction(name="a", secrets=list(secrets)))
        await self.ask(RegisterWorker(worker_id="w", processes=["a"]))
        await self.ask(Invoke(action="a", input=input))
        return (await self.ask(Claim(worker_id="w", actions=["a"]))).tasks[0]

    def written(self):
        return repr([entry.events for entry in self.shard.log.read(0)])


@pytest.fixture
async def scene():
    shard = Shard(State(), MemoryLog())
    await shard.start()
    yield Scene(shard)
    await shard.stop()


async def test_a_worker_is_given_what_its_action_names(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    await scene.ask(SetSecret(name="OTHER", value="something else"))

    task = await scene.task()

    assert task.secrets == {"KEY": VALUE}
    assert VALUE not in repr(task)
    assert VALUE not in scene.written()


async def test_a_reference_in_an_input_is_filled_in_for_the_worker_only(scene):
    await scene.ask(SetSecret(name="KEY", value='with "quotes"'))

    task = await scene.task(b'{"k":"$.secrets.KEY","o":"$.secrets.OTHER"}')
    run = await scene.ask(GetRun(run_id=task.task_id))

    assert task.payload == b'{"k":"with \\"quotes\\"","o":"$.secrets.OTHER"}'
    assert run.input == b'{"k":"$.secrets.KEY","o":"$.secrets.OTHER"}'


async def test_an_action_that_names_no_secret_is_given_none(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))

    task = await scene.task(b'"$.secrets.KEY"', secrets=())

    assert (task.secrets, task.payload) == ({}, b'"$.secrets.KEY"')


async def test_what_a_handler_repeats_is_taken_out(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    task = await scene.task()

    await scene.ask(
        Complete(run_id=task.task_id, worker_id="w", output=f'"it is {VALUE}"'.encode())
    )

    run = await scene.ask(GetRun(run_id=task.task_id))
    assert run.output == b'"it is [secret KEY]"'


async def test_a_value_that_was_deleted_meanwhile_is_taken_out_too(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    task = await scene.task()
    await scene.ask(DeleteSecret(name="KEY"))

    await scene.ask(Complete(run_id=task.task_id, worker_id="w", output=VALUE.encode()))

    assert VALUE not in scene.written()


async def test_keys_are_rotated(scene):
    await scene.ask(SetSecret(name="KEY", value="the old value"))
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    before = (await scene.ask(ListSecrets())).items[0]
    scene.keys = [KEYS[1], KEYS[0]]

    resealed = await scene.ask(RotateKey())
    after = (await scene.ask(ListSecrets())).items[0]
    scene.keys = [KEYS[1]]
    again = await scene.ask(RotateKey())

    assert (resealed.count, again.count) == (2, 2)
    assert before.key_id != after.key_id == resealed.key_id
    assert (await scene.task()).secrets == {"KEY": VALUE}


async def test_a_key_that_is_still_needed_is_missed_before_anything_is_changed(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    scene.keys = [KEYS[1]]

    with pytest.raises(Conflict, match="keep the old key") as refusal:
        await scene.ask(RotateKey())

    assert refusal.value.code == "key_missing"


async def test_without_a_key_nothing_is_set():
    shard = Shard(State(), MemoryLog())
    await shard.start()
    door = VaultDoor(Router(shard), Vault(shard, lambda: None))

    with pytest.raises(Conflict, match="--secret-keys") as refusal:
        await door.ask(SetSecret(name="KEY", value=VALUE), SERVER)
    with pytest.raises(Conflict, match="--secret-keys"):
        await shard.ask(SetSecret(name="KEY", value=VALUE))

    assert refusal.value.code == "secrets_unavailable"
    await shard.stop()


async def test_a_seal_is_good_for_its_own_name_only(scene):
    await scene.ask(SetSecret(name="KEY", value=VALUE))
    secrets = scene.shard.state.space("default").secrets
    secrets["OTHER"] = secrets["KEY"]

    assert (await scene.task(secrets=["KEY", "OTHER"])).secrets == {"KEY": VALUE}


def test_what_holds_no_value_is_passed_on_as_it_came():
    messages = [Complete(run_id="a-1", worker_id="w", output=b"nothing")]

    assert Redactor([("KEY", VALUE.encode())]).redacted(messages) is messages


def test_the_message_says_nothing_of_its_value():
    assert VALUE not in repr(SetSecret(name="KEY", value=VALUE))
