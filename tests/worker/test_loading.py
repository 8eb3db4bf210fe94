import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flo import ActionWorker, Invalid
from flo.worker.loading import load_worker

EMAILS = """
from flo import ActionWorker, StreamWorker

worker = ActionWorker(worker_id="emails")
events = StreamWorker(stream="events", worker_id="events")
spare = ActionWorker(worker_id="spare")
settings = {}

def made():
    return ActionWorker(worker_id="made")

class Jobs:
    worker = ActionWorker(worker_id="nested")
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("emails", "reports", "sibling", "broken", "hungry"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = dict(sys.modules)
    (tmp_path / "emails.py").write_text(EMAILS)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "reports.py").write_text("from sibling import worker\n")
    (tmp_path / "jobs" / "sibling.py").write_text(EMAILS)
    (tmp_path / "broken.py").write_text("import flo\n\n1 / 0\n")
    (tmp_path / "hungry.py").write_text("import no_such_library\n")
    (tmp_path / "json.py").write_text(EMAILS)
    yield
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "worker_id"),
    [
        ("emails:worker", "emails"),
        ("emails", "emails"),
        ("emails:spare", "spare"),
        ("emails:events", "events"),
        ("emails:made", "made"),
        ("emails:Jobs.worker", "nested"),
        ("emails.py:spare", "spare"),
        ("emails.py", "emails"),
        ("jobs/reports.py:worker", "emails"),
        ("json.py:spare", "spare"),
    ],
)
def test_a_target_names_a_worker(target: str, worker_id: str) -> None:
    assert load_worker(target).worker_id == worker_id


def test_a_file_may_have_the_name_of_a_module_that_others_need() -> None:
    import json

    load_worker("json.py:worker")

    assert sys.modules["json"] is json


def test_the_whole_path_of_a_file_will_do(tmp_path: Path) -> None:
    assert isinstance(load_worker(f"{tmp_path / 'emails.py'}:worker"), ActionWorker)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "expected module:worker or path/to/file.py:worker, got ''"),
        ("emails:", "expected module:worker"),
        (":worker", "expected module:worker"),
        ("emails:a b", "expected module:worker"),
        ("emals:worker", "there is no module 'emals': looked in "),
        ("emails.deeper:worker", "there is no module 'emails.deeper'"),
        ("emals.py:worker", "there is no file 'emals.py' in "),
        ("jobs/reports:worker", "a file is named with its .py"),
        ("emails:sparre", "'emails' has no 'sparre'; did you mean emails:spare?"),
        ("emails:other_name", "its workers are events, spare, worker"),
        ("jobs.sibling:Jobs.wrker", "has no 'Jobs.wrker'"),
        (
            "emails:settings",
            "expected 'emails:settings' to be an ActionWorker, a StreamWorker or a PipelineWorker, "
            "got dict",
        ),
        ("emails:Jobs", "to be an ActionWorker, a StreamWorker or a PipelineWorker, got Jobs"),
        ("broken:worker", "'broken' cannot be loaded: ZeroDivisionError: division by zero"),
        ("broken.py:worker", "broken.py:3)"),
        ("hungry:worker", "'hungry' cannot be loaded: ModuleNotFoundError: No module named 'no_"),
    ],
)
def test_a_target_that_names_none_says_why(target: str, message: str) -> None:
    with pytest.raises(Invalid) as raised:
        load_worker(target)

    assert message in raised.value.message
    assert raised.value.code == "worker_not_loadable"
