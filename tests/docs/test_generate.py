from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_generated_parts_of_every_page_are_up_to_date(
    generator: ModuleType, page: Path
) -> None:
    text = page.read_text(encoding="utf-8")

    assert generator.generate(text) == text, "run `make docs`"


def test_the_schema_of_workflows_is_up_to_date(generator: ModuleType) -> None:
    text = generator.SCHEMA.read_text(encoding="utf-8")

    assert generator.workflow_schema() == text, "run `make docs`"
