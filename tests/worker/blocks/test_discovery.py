"""How blocks are found in folders."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flo.model.errors import Invalid
from flo.worker.blocks.discovery import discover, modules_in
from worker.log_watcher import watching_log

SOURCE = """
from flo.worker.blocks.block import block

@block(package="{package}", name="{name}")
async def found(params):
    return {value}
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    path, modules = [*sys.path], {*sys.modules}
    yield
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        del sys.modules[name]


def write(file: Path, package: str, name: str, value: str = "None", head: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(head + SOURCE.format(package=package, name=name, value=value))


def found_in(*folders: Path) -> list[str]:
    return [declared.id for declared in discover(folders)]


def test_blocks_are_found_in_all_folders_and_the_folders_below(tmp_path: Path) -> None:
    write(tmp_path / "a" / "one.py", "test.found", "one")
    write(tmp_path / "a" / "deep" / "er" / "two.py", "test.found", "two")
    write(tmp_path / "b" / "three.py", "test.found", "three")

    found = found_in(tmp_path / "a", tmp_path / "b")

    assert found == ["test.found/one:1.0.0", "test.found/three:1.0.0", "test.found/two:1.0.0"]


@pytest.mark.parametrize(
    "path",
    [
        "tests/x.py",
        "test/x.py",
        "testing/x.py",
        "__pycache__/x.py",
        ".hidden/x.py",
        "deep/tests/x.py",
        "__init__.py",
        "test_x.py",
        "x.txt",
    ],
)
def test_what_is_no_module_of_blocks_is_passed_over(path: str, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("raise RuntimeError('imported')")

    assert list(modules_in(tmp_path)) == []


def test_a_module_is_called_as_python_calls_it(tmp_path: Path) -> None:
    for file in ("lab/__init__.py", "lab/net/__init__.py", "lab/net/ports.py", "alone.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()

    below = list(modules_in(tmp_path / "lab"))
    all_of_it = list(modules_in(tmp_path))

    assert [(one.root, one.name) for one in below] == [(tmp_path, "lab.net.ports")]
    assert [one.name for one in all_of_it] == ["alone", "lab.net.ports"]


def test_modules_can_import_their_neighbours(tmp_path: Path) -> None:
    write(
        tmp_path / "uses_it.py",
        "test.neighbours",
        "uses",
        "NUMBER",
        "from block_settings_here import NUMBER\n",
    )
    (tmp_path / "block_settings_here.py").write_text("NUMBER = 7\n")
    package = tmp_path / "block_package"
    write(
        package / "relative.py", "test.neighbours", "relative", "NUMBER", "from .n import NUMBER\n"
    )
    (package / "__init__.py").touch()
    (package / "n.py").write_text("NUMBER = 8\n")

    assert found_in(tmp_path) == ["test.neighbours/relative:1.0.0", "test.neighbours/uses:1.0.0"]


def test_files_of_the_same_name_do_not_hide_each_other(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        head = "import same_named_helper\n"
        write(tmp_path / folder / "same_named.py", f"test.{folder}", "x", "WHO", head)
        write(tmp_path / folder / "same_named_helper.py", f"test.{folder}", "helper")

    discover([tmp_path / "a", tmp_path / "b"])
    first = next(m for n, m in sys.modules.items() if n.endswith(".same_named"))
    second = sys.modules["same_named"]

    assert first.same_named_helper.__file__ == str(tmp_path / "a" / "same_named_helper.py")
    assert second.same_named_helper.__file__ == str(tmp_path / "b" / "same_named_helper.py")
    assert found_in(tmp_path / "a", tmp_path / "b") == [
        "test.a/helper:1.0.0",
        "test.a/x:1.0.0",
        "test.b/helper:1.0.0",
        "test.b/x:1.0.0",
    ]


def test_a_file_does_not_hide_a_module_of_python(tmp_path: Path) -> None:
    import json

    write(tmp_path / "json.py", "test.hiding", "json")

    assert found_in(tmp_path) == ["test.hiding/json:1.0.0"]
    assert sys.modules["json"] is json


def test_a_file_that_cannot_be_imported_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "broken_block.py").write_text("x = 1\nimport no_such_module_anywhere\n")

    with pytest.raises(
        Invalid,
        match=r"broken_block.py' cannot be imported: ModuleNotFoundError.*broken_block.py:2",
    ) as raised:
        discover([tmp_path])
    assert raised.value.code == "block_not_loadable"


def test_two_blocks_of_one_id_are_refused_with_both_places(tmp_path: Path) -> None:
    write(tmp_path / "one_of_two.py", "test.two", "same")
    write(tmp_path / "two_of_two.py", "test.two", "same")

    with pytest.raises(Invalid, match=r"declared twice.*one_of_two.py.*two_of_two.py"):
        discover([tmp_path])


def test_a_folder_that_is_not_there_is_told_and_has_no_blocks(tmp_path: Path) -> None:
    with watching_log("there is no folder") as watcher:
        assert discover([tmp_path / "typo"]) == []

    assert watcher.heard.is_set()
