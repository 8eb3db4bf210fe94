import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from flo import BlockingFlo
from flo.log.lock import FolderLock
from flo.log.sqlite.entries import verify_log
from flo.log.sqlite.file import default_connect
from flo.testing.process import ServerProcess
from tests.server.proof.folders import edited, make_folder

OLD = (Path(__file__).parents[1] / "log/sqlite/golden/format_1.sql").read_text()


@pytest.fixture
def folder(tmp_path):
    with closing(default_connect(tmp_path / "flo.db")) as connection:
        connection.executescript(OLD)
    return tmp_path


def test_an_old_log_is_upgraded_and_kept(shell, folder):
    printed = shell(f"flo log upgrade --data-dir {folder}")

    assert printed.code == 0
    assert "from format 1 to 2 (2 entries, 1 rows of the archive, 1 rows of records)" in printed.out
    assert f"The old file is {folder}/flo.db.format-1" in printed.out
    verify_log(folder / "flo.db")


def test_a_second_time_there_is_nothing_to_do(shell, folder):
    shell(f"flo log upgrade --data-dir {folder}")

    printed = shell(f"flo log upgrade --data-dir {folder}")

    assert (printed.code, "has format 2 already: nothing to do" in printed.out) == (0, True)


def test_what_was_done_can_be_read_by_programs(shell, folder):
    printed = shell(f"flo log upgrade --data-dir {folder} --format json")

    assert json.loads(printed.out) == {
        "format_before": 1,
        "format": 2,
        "entries": 2,
        "archived": 1,
        "records": 1,
        "kept": f"{folder}/flo.db.format-1",
    }


def test_the_log_of_a_running_server_is_left_alone(shell, folder):
    before = (folder / "flo.db").read_bytes()

    with FolderLock(folder):
        printed = shell(f"flo log upgrade --data-dir {folder}")

    assert printed.code != 0
    assert "is in use by process" in printed.err
    assert (folder / "flo.db").read_bytes() == before


@pytest.fixture
def lived(tmp_path):
    """The folder of a server that is running: an action, then three runs of it."""
    folder = tmp_path / "lived"
    with ServerProcess(folder, http_port=-1) as server:
        with BlockingFlo(server.address, namespace="default") as flo:
            flo.actions.register("send")
            for _ in range(3):
                flo.actions.invoke("send")
        yield folder


def state_at(shell, folder, at):
    return json.loads(shell(f"flo log state --at {at} --data-dir {folder} --format json").out)


def test_the_state_of_every_position_can_be_seen_while_the_server_runs(shell, lived):
    end = state_at(shell, lived, "2100-01-01")["position"]

    states = [state_at(shell, lived, at) for at in range(end + 1)]

    assert [state["position"] for state in states] == list(range(end + 1))
    assert states[0]["namespaces"] == {}
    runs = [state["namespaces"].get("default", {"live_runs": 0})["live_runs"] for state in states]
    assert runs == sorted(runs)
    assert set(runs) == {0, 1, 2, 3}
    assert len({state["fingerprint"] for state in states}) > 4


def test_what_there_was_is_shown_in_words(shell, lived):
    shown = shell(f"flo log state --at 2100-01-01 --data-dir {lived}").out

    assert "namespace default: 1 actions, 3 live runs" in shown
    assert "fingerprint: " in shown


def test_a_state_that_never_was_is_not_found(shell, lived):
    end = state_at(shell, lived, "2100-01-01")["position"]

    printed = shell(f"flo log state --at {end + 1} --data-dir {lived}")

    assert printed.code != 0
    assert f"expected a position up to {end}, where the log ends, got {end + 1}" in printed.err


def test_every_event_is_a_line_that_can_be_read(shell, lived):
    shown = shell(f"flo log dump --data-dir {lived}").out.splitlines()

    assert len(shown) == state_at(shell, lived, "2100-01-01")["position"]
    assert sum("  RunQueued  " in line for line in shown) == 3


def test_events_from_a_position_on_can_be_read_by_programs(shell, lived):
    line = shell(f"flo log dump --from 1 --limit 1 --data-dir {lived} --format json").out

    dumped = json.loads(line)
    assert (dumped["position"], dumped["event"][0]) == (1, "ActionRegistered")


def test_the_log_of_a_running_server_is_not_compacted(shell, lived):
    printed = shell(f"flo log compact --data-dir {lived}")

    assert printed.code != 0
    assert "is in use by process" in printed.err


def test_a_folder_without_a_log_is_named(shell, tmp_path):
    printed = shell(f"flo log upgrade --data-dir {tmp_path / 'elsewhere'}")

    assert printed.code != 0
    assert "name the folder of the server with --data-dir" in printed.err
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def lived_in(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    asyncio.run(make_folder(folder, 4))
    return folder


def test_a_log_that_is_whole_is_said_to_be(shell, lived_in):
    printed = shell(f"flo log verify --data-dir {lived_in}")

    assert printed.code == 0
    assert "whole from index 0 to" in printed.out
    assert "2 rows, 2 of them proved by the log" in printed.out


def test_the_first_entry_that_was_changed_is_named(shell, lived_in):
    edited(lived_in, "UPDATE log SET at_ms = at_ms + 1 WHERE first > 10")

    printed = shell(f"flo log verify --data-dir {lived_in}")

    assert printed.code != 0
    assert "the entry at index 1" in printed.err


def test_a_checkpoint_proves_what_was_there_when_it_was_signed(shell, lived_in, tmp_path):
    key, kept = tmp_path / "signing.key", tmp_path / "kept.json"
    shell(f"flo log new-key {key}")
    shell(f"flo log checkpoint --key {key} --data-dir {lived_in} --out {kept}")

    printed = shell(
        f"flo log verify --data-dir {lived_in} --checkpoint {kept} --public-key {key}.pub"
    )

    assert printed.code == 0
    assert "nothing before index" in printed.out


def test_a_checkpoint_is_checked_with_a_key_from_elsewhere(shell, lived_in, tmp_path):
    (tmp_path / "kept.json").write_text("{}")

    printed = shell(f"flo log verify --data-dir {lived_in} --checkpoint {tmp_path}/kept.json")

    assert printed.code == 2
    assert "belong together" in printed.err
