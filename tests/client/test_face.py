"""The public face of the package."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import flo


@pytest.mark.parametrize("name", flo.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(flo, name) is not None
    assert name in dir(flo)


def test_what_a_checker_sees_is_what_there_is() -> None:
    tree = ast.parse(Path(flo.__file__).with_suffix(".pyi").read_text())
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {*seen, "__version__"} == set(flo.__all__)
    for name, home in seen.items():
        assert getattr(import_module(str(home)), str(name)) is getattr(flo, str(name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'flo' has no attribute 'Nothing'"):
        flo.Nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import flo, sys; print([m for m in sys.modules if m in ('asyncio', 'msgspec')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
