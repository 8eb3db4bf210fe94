import os
import subprocess
import sys

import pytest

from flo.log.lock import FolderLock
from flo.model.errors import Conflict

HOLD = """
import sys
from pathlib import Path
from flo.log.lock import FolderLock

lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    arguments = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_server_is_refused_and_told_who_holds_the_folder(tmp_path, holder):
    with pytest.raises(Conflict) as refusal:
        FolderLock(tmp_path)

    assert refusal.value.code == "data_folder_in_use"
    assert f"data folder {tmp_path} is in use by process {holder.pid}" in str(refusal.value)


def test_the_death_of_the_holder_frees_the_folder(tmp_path, holder):
    holder.kill()
    holder.wait()

    FolderLock(tmp_path).close()


def test_the_same_process_cannot_hold_a_folder_twice(tmp_path):
    with FolderLock(tmp_path), pytest.raises(Conflict, match=f"process {os.getpid()}"):
        FolderLock(tmp_path)


def test_a_refusal_does_not_free_the_folder(tmp_path):
    with FolderLock(tmp_path):
        for _ in range(2):
            with pytest.raises(Conflict):
                FolderLock(tmp_path)


def test_a_folder_let_go_can_be_held_again(tmp_path):
    lock = FolderLock(tmp_path)
    lock.close()
    lock.close()

    with FolderLock(tmp_path):
        assert (tmp_path / "flo.lock").read_text() == f"{os.getpid()}\n"


def test_two_folders_are_held_apart(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    with FolderLock(tmp_path / "one"), FolderLock(tmp_path / "two"):
        pass
