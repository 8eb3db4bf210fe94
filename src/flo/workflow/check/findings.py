"""Collects problems by the path of the field they are about, and finds their places."""

from flo.workflow.document.places import Path, Places, dotted
from flo.workflow.document.problem import Problems, Severity, problem


class Findings:
    def __init__(self, places: Places) -> None:
        self.problems = Problems()
        self._places = places

    def error(self, code: str, message: str, path: Path, *, hint: str = "", text: str = "") -> None:
        """About the value of a field, or a text inside of it."""
        place = self._places.value(path, text)
        self.problems.add(problem(code, message, place, dotted(path), hint=hint))

    def error_of_name(self, code: str, message: str, path: Path, *, hint: str = "") -> None:
        """About the name of a field, or the whole of what stands under it."""
        place = self._places.key(path)
        self.problems.add(problem(code, message, place, dotted(path), hint=hint))

    def warning(
        self, code: str, message: str, path: Path, *, hint: str = "", text: str = ""
    ) -> None:
        place = self._places.value(path, text)
        self.problems.add(
            problem(code, message, place, dotted(path), hint=hint, severity=Severity.WARNING)
        )

    def warning_of_name(self, code: str, message: str, path: Path, *, hint: str = "") -> None:
        place = self._places.key(path)
        self.problems.add(
            problem(code, message, place, dotted(path), hint=hint, severity=Severity.WARNING)
        )
