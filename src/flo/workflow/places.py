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

    def note(self, path: Path, key: Place, value: Place) -> None:
        self._keys[path] = key
        self._values[path] = value

    def key(self, path: Path) -> Place:
        """Where the name of the field stands, or the nearest thing around it."""
        return _nearest(self._keys, path)

    def value(self, path: Path) -> Place:
        """Where its value begins, or the nearest thing around it."""
        return _nearest(self._values, path)


def _nearest(places: dict[Path, Place], path: Path) -> Place:
    while path and path not in places:
        path = path[:-1]
    return places.get(path, Place(1, 1))
