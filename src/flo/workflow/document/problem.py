"""What is wrong with a document, where, and what would help.

    E1xx  the text and its structure      E4xx  values out of bounds, or at odds with each other
    E2xx  references to other things      E5xx  outcomes, transitions and signals
    E3xx  reachability

An error refuses the document; a warning lets it pass. A code never changes its meaning.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, NamedTuple

from flo.model.base import Message

PROBLEMS_MAX: Final = 100
"""So many errors are reported, and so many warnings: nobody reads more at once."""

CODES: Final[dict[str, str]] = {
    "E101": "`name` is missing or empty",
    "E102": "`version` is missing or empty",
    "E103": "`start` is missing",
    "E104": "a plan has no executors",
    "E105": "two steps have the same name",
    "E106": "two executors of a plan have the same name",
    "E107": "two terminals have the same name, or one is named like a built-in or a step",
    "E108": "`kind` is missing or not `Workflow`",
    "E110": "the text is neither YAML nor JSON",
    "E111": "the document is too large, too deep, or expands to too much",
    "E112": "the text holds no document, or several",
    "E113": "a key stands twice in the same place",
    "E114": "a key is unknown here",
    "E115": "a value has the wrong type",
    "E116": "a key is no text, or a tag is used",
    "E117": "a required field is missing",
    "E118": "a value is none of those that are allowed",
    "E119": "a name or number is out of bounds",
    "E120": "fields exclude each other",
    "E201": "a transition leads to no step and no terminal",
    "E202": "a target is not well-formed, or not allowed here",
    "E203": "a plan is not defined",
    "E204": "a workflow runs itself",
    "E205": "a path is not well-formed",
    "E206": "a path names a step that does not exist",
    "E207": "a path names a step that cannot have run yet",
    "E208": "a template is not well-formed",
    "E209": "a path may be missing on some way to where it is used",
    "E210": "an action can time out, and nothing says where that leads",
    "E211": "an action is not registered (a server says so)",
    "E301": "a step is unreachable",
    "E302": "a terminal is unreachable",
    "E303": "no terminal can be reached from a step",
    "E401": "a retry cannot work as written",
    "E402": "a breaker cannot work as written",
    "E403": "a rate limit limits nothing, or cannot work as written",
    "E404": "a cache cannot work as written",
    "E405": "health cannot be measured as written",
    "E406": "a poll cannot work as written",
    "E407": "a schedule cannot work as written",
    "E408": "a trigger cannot work as written",
    "E409": "a concurrency limit cannot work as written",
    "E410": "branches or items cannot join as written",
    "E501": "two rules contradict each other",
    "E502": "a step has no transitions",
    "E503": "a wait for a signal has no timeout",
    "E504": "an outcome has no transition",
    "E505": "a transition is for an outcome that never comes",
}


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class DocumentPosition(NamedTuple):
    """Where something stands in the text; both count from 1, in characters."""

    line: int
    column: int


class Problem(Message):
    code: str
    severity: Severity
    message: str
    line: int = 1
    column: int = 1
    path: str = ""
    """The field it is about: `steps.charge.retry.max_attempts`."""
    hint: str = ""
    """What would help, if that is known."""


def problem(
    code: str,
    message: str,
    place: DocumentPosition,
    path: str = "",
    *,
    hint: str = "",
    severity: Severity = Severity.ERROR,
) -> Problem:
    assert code in CODES
    return Problem(
        code=code,
        severity=severity,
        message=message,
        line=place.line,
        column=place.column,
        path=path,
        hint=hint,
    )


def has_errors(problems: Iterable[Problem]) -> bool:
    return any(one.severity is Severity.ERROR for one in problems)


class Problems:
    """A list of problems that does not grow beyond what is reported."""

    def __init__(self) -> None:
        self._found: dict[Severity, list[Problem]] = {Severity.ERROR: [], Severity.WARNING: []}

    def add(self, found: Problem) -> None:
        same = self._found[found.severity]
        if len(same) < PROBLEMS_MAX:
            same.append(found)

    @property
    def full(self) -> bool:
        """Whether further errors would not be reported, so that hints are not worth looking for."""
        return len(self._found[Severity.ERROR]) >= PROBLEMS_MAX

    def __iter__(self) -> Iterator[Problem]:
        for same in self._found.values():
            yield from same


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """From the top of the text to its end, each once."""
    reported = Problems()
    for one in {(one.code, one.line, one.column, one.message): one for one in problems}.values():
        reported.add(one)
    return tuple(sorted(reported, key=lambda one: (one.line, one.column, one.code)))


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint that names the known word nearest to this one; empty if none is near."""
    by_folded = {word.replace("-", "_").lower(): word for word in known}
    close = get_close_matches(name[:80].replace("-", "_").lower(), by_folded, n=1, cutoff=0.6)
    return f"did you mean {by_folded[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """A value as messages quote it: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
