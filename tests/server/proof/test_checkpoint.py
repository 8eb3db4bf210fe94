import asyncio
import shutil

import msgspec
import pytest

from flo.log.checksums import LINK_FIRST, link_after
from flo.log.mark import MarkFile, read_mark
from flo.model.errors import Conflict, Corrupt, FloError, NotFound
from flo.server.proof.checkpoint import compare, make_checkpoint, make_key, read_checkpoint
from flo.server.proof.verify import Verifier
from tests.server.proof.folders import edited, make_folder, rows_of


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A folder, a checkpoint of it in the middle of its life, and the key."""
    base = tmp_path_factory.mktemp("scene")
    folder, key = base / "data", base / "signing.key"
    folder.mkdir()
    make_key(key)
    asyncio.run(make_folder(folder, 3, with_segments=False))
    shutil.copytree(folder, base / "older")
    asyncio.run(make_folder(folder, 3, with_segments=False))
    checkpoint = make_checkpoint(folder, key, 1)
    asyncio.run(make_folder(folder, 3, with_segments=False))
    return folder, checkpoint, key


@pytest.fixture
def folder(scene, tmp_path):
    shutil.copytree(scene[0], tmp_path / "copy")
    return tmp_path / "copy"


def public_key(scene):
    return scene[2].with_name("signing.key.pub")


def test_a_log_that_went_on_still_has_all_of_the_checkpoint(scene, folder):
    text = msgspec.json.encode(scene[1])

    compare(folder, read_checkpoint(text, public_key(scene)))


def test_a_key_is_for_its_owner_only_and_is_never_written_over(scene):
    assert scene[2].stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict, match="never written over"):
        make_key(scene[2])


def test_a_log_that_was_cut_off_is_found_only_through_a_checkpoint(scene):
    """All else fits together: it is the folder as it was some time ago."""
    older = scene[0].with_name("older")

    Verifier(older).verify()
    with pytest.raises(Corrupt, match="was cut off") as refusal:
        compare(older, scene[1])

    assert refusal.value.code == "log_truncated"


def test_a_log_whose_chain_was_made_anew_is_found_only_through_a_checkpoint(scene, folder):
    rewrite(folder)

    Verifier(folder).verify()
    with pytest.raises(FloError) as refusal:
        compare(folder, scene[1])

    assert refusal.value.code == "log_changed"


def rewrite(folder):
    """Change the entries, and make every checksum after them right, in the mark as well."""
    link = LINK_FIRST
    edited(folder, "UPDATE log SET at_ms = at_ms + 1")
    for first, count, at_ms, body in rows_of(
        folder, "SELECT first, count, at_ms, body FROM log ORDER BY first"
    ):
        link = link_after(link, first, count, at_ms, body)
        edited(folder, "UPDATE log SET checksum = ?, digest = ? WHERE first = ?", (*link, first))
    edited(folder, "UPDATE meta SET position_checksum = ?, position_digest = ?", tuple(link))
    mark = read_mark(folder / "flo.mark")
    assert mark is not None
    (folder / "flo.mark").unlink()
    MarkFile(folder / "flo.mark").begin(mark._replace(link=link))


def test_a_checkpoint_that_was_changed_is_refused(scene):
    forged = msgspec.structs.replace(scene[1], position=1)

    with pytest.raises(Corrupt, match="not signed with the key") as refusal:
        read_checkpoint(msgspec.json.encode(forged), public_key(scene))

    assert refusal.value.code == "checkpoint_forged"


def test_a_checkpoint_of_another_key_is_refused(scene, tmp_path):
    other = make_key(tmp_path / "other.key")

    with pytest.raises(Corrupt, match="not signed with the key"):
        read_checkpoint(msgspec.json.encode(scene[1]), other)


def test_a_checkpoint_of_another_log_is_refused(scene, folder):
    other = msgspec.structs.replace(scene[1], store="00" * 16)

    with pytest.raises(Corrupt, match="another log") as refusal:
        compare(folder, other)

    assert refusal.value.code == "checkpoint_of_other"


def test_a_checkpoint_from_before_all_that_is_kept_says_so(scene, tmp_path):
    asyncio.run(make_folder(tmp_path))
    shutil.rmtree(tmp_path / "segments")
    ((store,),) = rows_of(tmp_path, "SELECT store_id FROM meta")
    older = msgspec.structs.replace(scene[1], position=1, store=store.hex())

    with pytest.raises(NotFound, match="use a newer one") as refusal:
        compare(tmp_path, older)

    assert refusal.value.code == "checkpoint_too_old"
