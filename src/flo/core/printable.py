"""Text of others, made safe to print and to log: it can do nothing to a terminal but be read.

printable       several lines may stay     \\x1b, \\r, U+202E … are spelt out
printable_line  one line                   \\n and \\t are spelt out, too
printable_json  JSON, which stays the same JSON
"""


class _Spelling(dict[int, str]):
    """What stands for each character, worked out when it is first met."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self._kept = kept

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_safe = character.isprintable() or character in self._kept
        self[code] = character if is_safe else self.spelt(character)
        return self[code]

    def spelt(self, character: str) -> str:
        return character.encode("unicode_escape").decode()


class _JsonSpelling(_Spelling):
    """As JSON spells it: a character that JSON needs two escapes for has two."""

    def spelt(self, character: str) -> str:
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


_TEXT = _Spelling(kept="\n\t")
_LINE = _Spelling(kept="")
_JSON = _JsonSpelling(kept="\n")


def printable(text: str) -> str:
    """The same text, in which whatever could move the cursor or change colours is spelt out."""
    return text if text.isprintable() else text.translate(_TEXT)


def printable_line(text: str) -> str:
    """The same as one line, so that nothing in it can pass for a line of its own."""
    return text if text.isprintable() else text.translate(_LINE)


def printable_json(text: str) -> str:
    """JSON of the same value; outside of its strings it has nothing that must be spelt out."""
    return text if text.isprintable() else text.translate(_JSON)
