"""Problems as text, with a caret under the place.

[E201] error: Invalid transition target 'shp' from step 'charge' at 'steps.charge.transitions'
  order.yaml:14:16
   14 |       success: shp
      |                ^
  did you mean 'ship'?
"""

from collections.abc import Iterable
from typing import Final

from flo.workflow.document.nodes import split_lines
from flo.workflow.document.problem import Problem, Severity

WIDTH_MAX: Final = 120


def report(problems: Iterable[Problem], text: str, name: str = "") -> str:
    """All problems, each with its line of the text, and how many there are."""
    listed = list(problems)
    lines = split_lines(text.removeprefix("\ufeff"))
    parts = [_paragraph(one, lines, name) for one in listed]
    return "\n\n".join([*parts, summary(listed)])


def summary(problems: Iterable[Problem]) -> str:
    severities = [one.severity for one in problems]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    return f"Total: {errors} error(s), {warnings} warning(s)"


def one_line(one: Problem) -> str:
    where = f" at '{one.path}'" if one.path else ""
    place = f" (line {one.line}, column {one.column})"
    return f"[{one.code}] {one.severity.value}: {one.message}{where}{place}"


def _paragraph(one: Problem, lines: list[str], name: str) -> str:
    where = f" at '{one.path}'" if one.path else ""
    place = f"{name}:{one.line}:{one.column}" if name else f"line {one.line}, column {one.column}"
    parts = [f"[{one.code}] {one.severity.value}: {one.message}{where}", f"  {place}"]
    if 1 <= one.line <= len(lines):
        parts += _excerpt(lines[one.line - 1], one.line, one.column)
    if one.hint:
        parts.append(f"  {one.hint}")
    return "\n".join(parts)


def _excerpt(line: str, number: int, column: int) -> list[str]:
    """The line and a caret under the column; of a long line, the part around it."""
    first = max(0, column - 1 - WIDTH_MAX // 2) if len(line) > WIDTH_MAX else 0
    shown = line[first : first + WIDTH_MAX].replace("\t", " ")
    margin = f"  {number:>4} | "
    caret = " " * (column - 1 - first) + "^"
    return [f"{margin}{shown}".rstrip(), f"{' ' * (len(margin) - 2)}| {caret}"]
