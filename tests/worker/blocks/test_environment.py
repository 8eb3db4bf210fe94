"""The environment of a block worker."""

from pathlib import Path

import pytest

from flo.model.errors import Invalid
from flo.worker.blocks.environment import BlockEnvironment, read_environment


def test_the_defaults_are_those_of_the_lifecycle(tmp_path: Path) -> None:
    found = read_environment({}, tmp_path)

    assert found == BlockEnvironment([])
    assert (found.heartbeat_interval, found.poll_interval, found.shutdown_timeout) == (20, 10, 60)


def test_folders_are_separated_by_commas(tmp_path: Path) -> None:
    found = read_environment({"DIR_FUNCTION_BLOCKS": "a, b/c,"}, tmp_path)

    assert found.dirs == ["a", "b/c"]


def test_our_own_name_for_the_folders_counts_for_more(tmp_path: Path) -> None:
    environ = {"DIR_FUNCTION_BLOCKS": "a", "FLO_BLOCK_DIRS": "b"}

    assert read_environment(environ, tmp_path).dirs == ["b"]


def test_every_variable_is_read(tmp_path: Path) -> None:
    environ = {
        "WORKER_NAME": "lab-worker",
        "WORKER_IP_ADDRESS": "10.0.0.50",
        "HEARTBEAT_INTERVAL": "2",
        "POLL_INTERVAL": "1",
        "SHUTDOWN_TIMEOUT": "3",
        "API_REQUEST_TIMEOUT": "4",
        "STARTUP_RETRY_TIMEOUT": "5",
        "BLOCKING_DETECTION_THRESHOLD": "0.25",
    }

    assert read_environment(environ, tmp_path) == BlockEnvironment(
        [], "lab-worker", "10.0.0.50", 2, 1, 3, 4, 5, 0.25
    )


def test_a_file_is_read_and_the_environment_counts_for_more(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# blocks\n"
        "export DIR_FUNCTION_BLOCKS='with space,b'  # quoted\n"
        "HEARTBEAT_INTERVAL = 7 # seconds\n"
        'POLL_INTERVAL="8"\n'
        "no assignment\n"
    )

    found = read_environment({"POLL_INTERVAL": "9"}, tmp_path)

    assert found.dirs == ["with space", "b"]
    assert (found.heartbeat_interval, found.poll_interval) == (7, 9)


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_what_is_no_duration_is_refused_by_its_name(text: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="expected SHUTDOWN_TIMEOUT"):
        read_environment({"SHUTDOWN_TIMEOUT": text}, tmp_path)
