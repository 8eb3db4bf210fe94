"""Where each field of a document stands, by the path of keys that leads to it."""

from typing import TypeAlias

from flo.workflow.document.problem import DocumentPosition

Path: TypeAlias = tuple[str, ...]
"""("plans", "payment", "executors", "[0]", "retry")"""


def dotted(path: Path) -> str:
    """plans.payment.executors[0].retry"""
    return ".".join(path).replace(".[", "[")


class Places:
    def __init__(self) -> None:
        self._keys: dict[Path, DocumentPosition] = {}
        self._values: dict[Path, DocumentPosition] = {}
        self._texts: dict[tuple[Path, str], DocumentPosition] = {}

    def note(self, path: Path, key: DocumentPosition, value: DocumentPosition) -> None:
        self._keys[path] = key
        self._values[path] = value

    def note_text(self, path: Path, text: str, place: DocumentPosition) -> None:
        """A text that stands somewhere inside of a field; the first one counts."""
        self._texts.setdefault((path, text), place)

    def key(self, path: Path) -> DocumentPosition:
        """Where the name of the field stands, or the nearest thing around it."""
        return _nearest(self._keys, path)

    def value(self, path: Path, text: str = "") -> DocumentPosition:
        """Where its value begins, or this text inside of it, or the nearest thing around it."""
        return self._texts.get((path, text)) or _nearest(self._values, path)


def _nearest(places: dict[Path, DocumentPosition], path: Path) -> DocumentPosition:
    while path and path not in places:
        path = path[:-1]
    return places.get(path, DocumentPosition(1, 1))
