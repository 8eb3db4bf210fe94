import json

import pytest

from flo.core.printable import printable, printable_json, printable_line

HOSTILE = "a\x1b[2J\r\x9b31m\u202e\x00\x7f\n\tb"


@pytest.mark.parametrize("text", ["", "plain", "größe ✓ 日本語", "two\nlines\tand a tab"])
def test_text_that_is_only_read_stays_as_it_is(text):
    assert printable(text) == text


def test_what_a_terminal_would_obey_is_spelt_out():
    assert printable(HOSTILE) == r"a\x1b[2J\r\x9b31m\u202e\x00\x7f" + "\n\tb"


def test_a_line_stays_one():
    assert printable_line(HOSTILE) == r"a\x1b[2J\r\x9b31m\u202e\x00\x7f\n\tb"
    assert "\u2028" not in printable_line("a\u2028b")


@pytest.mark.parametrize("value", [HOSTILE, {"a\x9b": ["\U000e0001", "\u2028"]}])
def test_json_stays_the_same_json(value):
    text = printable_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == value
    assert text.replace("\n", "").isprintable()
