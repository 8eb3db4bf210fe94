"""Checks of paths and templates: well-formed, of a step that exists and can have run before."""

from flo.workflow.check.findings import Findings
from flo.workflow.check.uses import PathUse, uses_of
from flo.workflow.definition import Definition
from flo.workflow.document.problem import nearest
from flo.workflow.graph import Area, areas_of, successors_of
from flo.workflow.mapping import MARK, Root
from flo.workflow.mapping import Path as DataPath
from flo.workflow.steps import RunStep, Step


def check_paths(definition: Definition, findings: Findings) -> None:
    known = {name for area in areas_of(definition) for name in area.steps}
    for use in uses_of(definition):
        if findings.problems.full:
            return
        for error in use.compiled.errors:
            hint = _hint_of(error.text)
            findings.error(use.code, str(error), use.path, hint=hint, text=error.text)
        for path in use.compiled.paths:
            _check_path(path, use, known, findings)


def _check_path(path: DataPath, use: PathUse, known: set[str], findings: Findings) -> None:
    if path.root in (Root.ITEM, Root.INDEX) and not use.with_item:
        message = f"$.{path.root} exists only in forEach"
        findings.error("E205", message, use.path, text=path.text)
    elif use.only_input and path.root is not Root.INPUT:
        message = f"expected a path that begins with $.input, got one of $.{_begin(path)}"
        findings.error("E205", message, use.path, text=path.text)
    elif path.step and path.step not in known:
        message = f"$.steps.{path.step} is no step of this workflow"
        hint = nearest(path.step, known)
        findings.error("E206", message, use.path, hint=hint, text=path.text)


def _begin(path: DataPath) -> str:
    if path.step:
        return "steps"
    return "flo" if path.root in (Root.RUN_ID, Root.TIMESTAMP) else path.root.value


def _hint_of(text: str) -> str:
    root = text.removeprefix(MARK).partition(".")[0]
    return nearest(MARK + root, ("$.input", "$.steps", "$.flo", "$.item", "$.index"))


# ── what can have run before ──────────────────────────────────────────────────────────────────────


def check_order(definition: Definition, findings: Findings) -> None:
    earlier = earlier_of(definition)
    for use in uses_of(definition):
        for path in use.compiled.paths:
            name = path.step
            if use.before and name in earlier and name not in earlier[use.before]:
                message = f"step {name!r} cannot have run before step {use.before!r}"
                hint = "the path will be null"
                findings.warning("E207", message, use.path, hint=hint, text=path.text)


def earlier_of(definition: Definition) -> dict[str, set[str]]:
    """Step → the steps that can have ended when it begins."""
    areas = list(areas_of(definition))
    inside: dict[str, set[str]] = {}
    for area in areas[1:]:
        inside.setdefault(area.parallel, set()).update(area.steps)
    main = _earlier_in(areas[0])
    found = {
        name: before.union(*(inside.get(other, set()) for other in before))
        for name, before in main.items()
    }
    for area in areas[1:]:
        for name, before in _earlier_in(area).items():
            found[name] = before | found[area.parallel]
    return found


def _earlier_in(area: Area) -> dict[str, set[str]]:
    """Step → the steps of the same area from which it can be reached by at least one move.

    Sets are bits of a number here: a document may have a thousand steps.
    """
    names = list(area.steps)
    bits = {name: 1 << number for number, name in enumerate(names)}
    masks = {name: bits[name] if _polls(step) else 0 for name, step in area.steps.items()}
    successors = successors_of(area)
    waiting = dict.fromkeys(names)
    while waiting:
        origin = next(iter(waiting))
        del waiting[origin]
        for goal in successors[origin]:
            mask = masks[goal] | masks[origin] | bits[origin]
            if mask != masks[goal]:
                masks[goal] = mask
                waiting[goal] = None
    return {name: {other for other in names if mask & bits[other]} for name, mask in masks.items()}


def _polls(step: Step) -> bool:
    """Whether the step can see its own last answer."""
    return isinstance(step, RunStep) and step.poll is not None
