"""The definition in the guide on neops can be published."""

import re
from pathlib import Path

from flo.workflow.document.read import read

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "neops.md"


def test_the_definition_in_the_guide_is_without_fault():
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    reading = read(text)
    assert reading.problems == ()
    assert reading.definition is not None
