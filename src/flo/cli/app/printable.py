"""Text that cannot do anything to a terminal but be read."""


def printable(text: str) -> str:
    """The same text, in which whatever could move the cursor or change colours is spelt out."""
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )
