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
from flo.workflow.graph import areas_of
from flo.workflow.mapping import Path as DataPath
from flo.workflow.mapping import Root
from flo.workflow.steps import Rollback, RollbackWhen, RunStep

WAYS_TOLD_MAX: Final = 3
_PLAIN_PATHS: Final = ("items", "duration_from", "until")
"""The fields that are a path and nothing else, so that no default can stand there."""


def check_missing(definition: Definition, findings: Findings) -> None:
    ways = Ways(definition)
    found = _found(definition, ways)
    for use, path, goal, moment in islice(found, PROBLEMS_MAX):
        _warn(ways.to(goal, path.step, path.root), path, use, moment, findings)
    _check_rollbacks(definition, findings)


def _found(definition: Definition, ways: Ways) -> Iterator[tuple[PathUse, DataPath, str, str]]:
    """The uses of paths that may be missing, each at the first of its moments where that is so."""
    earlier = earlier_of(definition)
    for use in uses_of(definition):
        for path in use.compiled.paths:
            if not path.step or path.has_default:
                continue
            if use.before and path.step not in earlier[use.before]:
                continue  # that is E207
            for goal, moment in _moments(definition, use):
                if _may_miss(definition, ways, goal, path, use):
                    yield use, path, goal, moment
                    break


def _may_miss(definition: Definition, ways: Ways, goal: str, path: DataPath, use: PathUse) -> bool:
    """A step that is undone has succeeded itself, unless its attempts are undone too."""
    if path.step != use.undoes:
        return ways.may_miss(goal, path.step, path.root)
    return path.root is Root.OUTPUT and use.undoes in _undone_if_attempted(definition)


def _undone_if_attempted(definition: Definition) -> dict[str, Rollback]:
    return {
        name: step.rollback
        for area in areas_of(definition)
        for name, step in area.steps.items()
        if isinstance(step, RunStep)
        and step.rollback is not None
        and step.rollback.when is RollbackWhen.ATTEMPTED
    }


def _check_rollbacks(definition: Definition, findings: Findings) -> None:
    paths = {name: path for area in areas_of(definition) for name, path in area.paths.items()}
    for name, rollback in _undone_if_attempted(definition).items():
        if rollback.input_mapping is None:
            message = (
                f"the rollback of step {name!r} is given the output of the step, "
                "which is missing when nobody knows what came of an attempt"
            )
            hint = "add an inputMapping to rollback, of what the step itself was given"
            findings.warning_of_name("E209", message, (*paths[name], "rollback"), hint=hint)


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
    if path.step == use.undoes:
        reason = "an attempt is undone too, and nobody knows what came of it"
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
