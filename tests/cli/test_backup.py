import json

import pytest

from flo import BlockingFlo
from flo.testing.process import ServerProcess


@pytest.fixture
def lived(tmp_path):
    """The folder of a server that is running: an action, then three runs of it."""
    with ServerProcess(tmp_path / "data", http_port=-1) as server:
        with BlockingFlo(server.address) as flo:
            flo.actions.register("send")
            for _ in range(3):
                flo.actions.invoke("send")
        yield tmp_path / "data"


def test_a_running_server_is_backed_up_and_restored_elsewhere(shell, lived, tmp_path):
    taken = json.loads(shell(f"flo backup {tmp_path}/one -d {lived} --format json").out)
    printed = shell(f"flo restore {tmp_path}/one -d {tmp_path}/other")
    there = shell(f"flo log state --at {taken['position']} -d {lived} --format raw").out
    restored = shell(f"flo log state --at {taken['position']} -d {tmp_path}/other --format raw").out

    assert printed.code == 0
    assert f"Start a server on it: flo server start --data-dir {tmp_path}/other" in printed.out
    assert there == restored == taken["fingerprint"] + "\n"


def test_backups_of_a_folder_are_incremental_listed_and_checked(shell, lived, tmp_path):
    shell(f"flo backup --to {tmp_path}/b -d {lived}")
    second = json.loads(shell(f"flo backup --to {tmp_path}/b -d {lived} --format json").out)

    assert len(second["needs"]) == 1
    assert second["bytes_new"] == 0
    listed = json.loads(shell(f"flo restore {tmp_path}/b --list --format json").out)
    assert [one["position"] for one in listed] == [second["position"]] * 2
    assert "is whole" in shell(f"flo backup --check {tmp_path}/b").out


def test_a_damaged_backup_is_refused_with_its_place_and_without_a_traceback(shell, lived, tmp_path):
    shell(f"flo backup {tmp_path}/one -d {lived}")
    content = bytearray((tmp_path / "one").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "one").write_bytes(content)

    for line in (
        f"flo backup --check {tmp_path}/one",
        f"flo restore {tmp_path}/one -d {tmp_path}/o",
    ):
        printed = shell(line)
        assert (printed.code, "Traceback" in printed.err) == (3, False)
        assert f"{tmp_path}/one is damaged before byte" in printed.err


def test_either_a_file_or_a_folder_is_named(shell, lived, tmp_path):
    assert "expected a FILE or --to DIR" in shell(f"flo backup -d {lived}").err
    assert "expected a FILE or --to DIR" in shell(f"flo backup x --to y -d {lived}").err
