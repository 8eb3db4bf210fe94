"""Checks that what a path names is there on every way to where it is used."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from flo.workflow.check.findings import Findings
from flo.workflow.check.paths import earlier_of
from flo.workflow.check.uses import PathUse, uses_of
from flo.workflow.check.ways import NOT_RUN, Way, Ways
from flo.workflow.definition import BUILT_IN_TERMINALS, Definition, TerminalKind
from flo.workflow.document.problem import PROBLEMS_MAX
from flo.workflow.mapping import Path as DataPath
from flo.workflow.mapping import Root

WAYS_TOLD_MAX: Final = 3
_PLAIN_PATHS: Final = ("items", "duration_from", "until")
"""The fields that are a path and nothing else, so that no default can stand there."""


def check_missing(definition: Definition, findings: Findings) -> None:
    ways = Ways(definition)
    found = _found(definition, ways)
    for use, path, goal, moment in islice(found, PROBLEMS_MAX):
        _warn(ways.to(goal, path.step, path.root), path, use, moment, findings)


def _found(definition: Definition, ways: Ways) -> Iterator[tuple[PathUse, DataPath, str, str]]:
    """The uses of paths that may be missing, each at the first of its moments where that is so."""
    earlier = earlier_of(definition)
    for use in uses_of(definition):
        for path in use.compiled.paths:
            if not path.step or path.has_default or path.step == use.undoes:
                continue
            if use.before and path.step not in earlier[use.before]:
                continue  # that is E207
            for goal, moment in _moments(definition, use):
                if ways.may_miss(goal, path.step, path.root):
                    yield use, path, goal, moment
                    break


def _moments(definition: Definition, use: PathUse) -> Iterator[tuple[str, str]]:
    """The steps or terminals at which paths are resolved, and how to say that."""
    if use.before:
        yield use.before, f"when step {use.before!r} begins"
    elif use.undoes:
        yield use.undoes, f"when step {use.undoes!r} is undone"
    elif use.path == ("output",):
        for name in (*definition.terminals, *BUILT_IN_TERMINALS):
            if definition.ending_of(name) is TerminalKind.COMPLETED:
                yield name, f"at the end {name!r}"


def _warn(ways: list[Way], path: DataPath, use: PathUse, moment: str, findings: Findings) -> None:
    reason = "; ".join(_reason(way, path) for way in ways[:WAYS_TOLD_MAX])
    hint = f"say what it is then: {{from: {path.text}, default: null}}"
    if use.path[-1] in _PLAIN_PATHS:
        hint = f"lead those ways past it, or through step {path.step!r}"
    message = f"{path.text} may be missing {moment}: {reason}"
    findings.warning("E209", message, use.path, hint=hint, text=path.text)


def _reason(way: Way, path: DataPath) -> str:
    if way.outcome == NOT_RUN:
        return f"step {path.step!r} has not run ({way})"
    part = "error" if path.root in (Root.ERROR, Root.ERROR_CODE) else "output"
    return f"step {path.step!r} may give no {part} with the outcome {way.outcome!r} ({way})"
