import ast
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
STUBS = ("src/flo/__init__.pyi", "src/flo/client/proxies/nouns.pyi")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("stubs", ROOT / "docs" / "stubs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_up_to_date(generator: ModuleType, stub: str) -> None:
    generated = ast.parse(generator.stubs()[ROOT / stub])
    there = ast.parse((ROOT / stub).read_text(encoding="utf-8"))

    assert ast.dump(there, indent=1) == ast.dump(generated, indent=1), "run `make docs`"


def test_there_is_no_other_stub() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.pyi")}

    assert there == set(STUBS)
