import asyncio
import base64

import pytest

from flo import ActionWorker, AesCodec, Flo, PayloadCodec
from flo.client.payloads.codec import recoded
from flo.core.sealing import KeyRing, new_key
from flo.model.actions import RegisterAction
from flo.model.declare.catalog import OPERATIONS
from flo.model.errors import Invalid
from flo.model.runs import Invoke
from flo.model.streams import Append, NewRecord
from flo.testing.local import local_server

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
PLAIN = "the patient is allergic"


def codec(*keys: str, strict: bool = False) -> AesCodec:
    return AesCodec(KeyRing.from_text("\n".join(keys or (KEY,))), strict=strict)


def upper(payload: bytes) -> bytes:
    return payload.upper()


def test_every_payload_of_a_message_is_recoded():
    assert recoded(Invoke(action="a", input=b"x"), upper).input == b"X"


def test_payloads_inside_of_others_are_recoded():
    append = Append(stream="s", records=[NewRecord(payload=b"x"), NewRecord(payload=b"y")])

    assert [one.payload for one in recoded(append, upper).records] == [b"X", b"Y"]


def test_what_has_no_payload_is_the_same_message():
    register = RegisterAction(name="a")

    assert recoded(register, upper) is register


def test_a_module_is_no_payload():
    assert recoded(RegisterAction(name="a", wasm_module=b"x"), upper).wasm_module == b"x"


def test_an_empty_payload_stays_empty():
    assert recoded(Invoke(action="a"), upper).input == b""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_can_be_looked_through(operation):
    from flo.client.payloads.codec import _places

    assert _places(operation.message) is not None
    assert _places(operation.reply) is not None


def test_the_first_key_seals_and_all_of_them_open():
    sealed = codec(KEY).encode(b"x")

    assert codec(OTHER, KEY).decode(sealed) == b"x"
    assert codec(OTHER, KEY).encode(b"x")[4:12] == codec(OTHER).encode(b"x")[4:12]


def test_two_seals_of_one_payload_are_not_alike():
    assert codec().encode(b"x") != codec().encode(b"x")


def test_without_its_key_a_payload_stays_closed():
    with pytest.raises(Invalid, match="which is not here") as refusal:
        codec(OTHER).decode(codec(KEY).encode(b"x"))

    assert refusal.value.code == "payload_sealed"


def test_a_payload_that_was_changed_is_refused():
    sealed = bytearray(codec().encode(b"x" * 20))
    sealed[-20] ^= 1

    with pytest.raises(Invalid, match="has been changed"):
        codec().decode(bytes(sealed))


def test_what_was_never_sealed_is_passed_on_unless_one_is_strict():
    assert codec().decode(b'{"a": 1}') == b'{"a": 1}'
    with pytest.raises(Invalid, match="expected sealed bytes"):
        codec(strict=True).decode(b'{"a": 1}')


@pytest.mark.parametrize("text", ["", "abc", "YWJj", "# only a remark"])
def test_a_file_that_holds_no_key_is_refused(tmp_path, text):
    (tmp_path / "keys").write_text(text)

    with pytest.raises(Invalid, match="cannot be used") as refusal:
        AesCodec.from_file(tmp_path / "keys")

    assert refusal.value.code == "key_invalid"


async def performed(address: str, sealed: PayloadCodec) -> object:
    """What comes of a run whose caller and worker use a codec."""
    worker = ActionWorker(Flo(address, codec=sealed))

    @worker.action("greet")
    def greet(order: dict[str, str]) -> dict[str, str]:
        return {"said": order["text"]}

    task = asyncio.create_task(worker.serve())
    async with Flo(address, codec=sealed) as flo:
        await flo.actions.register("greet")
        invocation = await flo.actions.invoke("greet", {"text": PLAIN})
        result = await invocation.result()
        await flo.kv.put("k", PLAIN)
        await flo.streams.append("s", {"text": PLAIN})
        assert await flo.kv.get("k") is not None
    worker.stop()
    await task
    return result


async def test_callers_and_workers_understand_each_other_and_the_server_only_keeps_seals(tmp_path):
    async with local_server(tmp_path) as server:
        result = await performed(server.address, codec())

    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert result == {"said": PLAIN}
    assert PLAIN.encode() not in files
    assert b"greet" in files


async def test_without_a_codec_the_server_keeps_what_it_is_given(tmp_path):
    """The control."""

    class Plain:
        def encode(self, payload: bytes) -> bytes:
            return payload

        decode = encode

    async with local_server(tmp_path) as server:
        await performed(server.address, Plain())

    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert PLAIN.encode() in files


async def test_what_the_server_must_read_cannot_be_sealed(server):
    async with Flo(server.address, codec=codec()) as flo:
        with pytest.raises(Invalid, match="cannot be used with a codec") as refusal:
            await flo.kv.set_json("doc", {"a": 1})

    assert refusal.value.code == "codec_unsupported"


async def test_a_codec_that_fails_tells_nothing_of_the_payload(server):
    class Broken:
        def encode(self, payload: bytes) -> bytes:
            raise ValueError(payload)

        decode = encode

    async with Flo(server.address, codec=Broken()) as flo:
        with pytest.raises(Invalid, match="could not be encoded by the codec: ValueError"):
            await flo.kv.put("k", PLAIN)


def test_a_new_key_is_one():
    assert KeyRing.from_text(new_key()).key_ids
