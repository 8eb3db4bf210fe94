"""Every link between the pages leads somewhere, and so do the contents of the site."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links_in(page):
    return LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page):
    """As GitHub and the site make them of headings."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in kept}


def broken_in(page):
    """The links of a page that lead nowhere."""
    broken = []
    for link in links_in(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md" and target.exists()
        if not target.exists() or (anchor and is_page and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert broken_in(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    """The control."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n[a](#a-page) [b](#b) [c](other.md) `[d](e.md)` [f](https://x.example)"
    )

    assert broken_in(page) == ["#b", "other.md"]


def test_the_contents_of_the_site_name_pages_that_there_are():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = re.findall(r"[\w/-]+\.md", str(site["nav"]))

    assert [name for name in named if not (DOCS / name).exists()] == []
    assert len(named) == len(set(named))
