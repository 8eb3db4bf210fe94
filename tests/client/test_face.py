"""The public face of the package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flo


@pytest.mark.parametrize("name", flo.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(flo, name) is not None
    assert name in dir(flo)


def test_what_a_checker_sees_is_what_there_is() -> None:
    tree = ast.parse(Path(flo.__file__).read_text())
    seen = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("flo.")
        for alias in node.names
    }

    assert seen == set(flo.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'flo' has no attribute 'Nothing'"):
        flo.Nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import flo, sys; print([m for m in sys.modules if m in ('asyncio', 'msgspec')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
