"""Where each field of a document stands, by the path of keys that leads to it."""

from typing import TypeAlias

from flo.workflow.problem import Place

Path: TypeAlias = tuple[str, ...]
"""("plans", "payment", "executors", "[0]", "retry")"""


def dotted(path: Path) -> str:
    """plans.payment.executors[0].retry"""
    return ".".join(path).replace(".[", "[")


class Places:
    def __init__(self) -> None:
        self._keys: dict[Path, Place] = {}
        self._values: dict[Path, Place] = {}
        self._texts: dict[tuple[Path, str], Place] = {}

    def note(self, path: Path, key: Place, value: Place) -> None:
        self._keys[path] = key
        self._values[path] = value

    def note_text(self, path: Path, text: str, place: Place) -> None:
        """A text that stands somewhere inside of a field; the first one counts."""
        self._texts.setdefault((path, text), place)

    def key(self, path: Path) -> Place:
        """Where the name of the field stands, or the nearest thing around it."""
        return _nearest(self._keys, path)

    def value(self, path: Path, text: str = "") -> Place:
        """Where its value begins, or this text inside of it, or the nearest thing around it."""
        return self._texts.get((path, text)) or _nearest(self._values, path)


def _nearest(places: dict[Path, Place], path: Path) -> Place:
    while path and path not in places:
        path = path[:-1]
    return places.get(path, Place(1, 1))
