"""Documents for tests: a small workflow to vary, and a mark for the place of a mistake."""

from pathlib import Path

MARK = "«"
SEED = Path(__file__).parent / "seed"

HEAD = """\
kind: Workflow
name: order
version: "1"
"""

START = """\
start:
  run: "@actions/check"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""

SMALL = HEAD + START


def marked(text: str) -> tuple[str, int, int]:
    """The text without its mark, and the line and column where the mark stood."""
    before, mark, after = text.partition(MARK)
    assert mark
    assert MARK not in after
    lines = before.split("\n")
    return before + after, len(lines), len(lines[-1]) + 1
