"""Graph checks: unknown targets, unreachable steps, missing terminals.

check ─┬─ names        no two things with one name
       ├─ references   transitions, plans, workflows          here
       ├─ settings     numbers that are at odds               settings.py
       ├─ paths        $.steps that exist, and ran before     paths.py
       ├─ missing      $.steps that are there on every way    missing.py
       └─ flow         reachability, outcomes, endings        flow.py
"""

from flo.model.ids import NOT_FIRST
from flo.workflow.check.findings import Findings
from flo.workflow.check.flow import check_flow
from flo.workflow.check.missing import check_missing
from flo.workflow.check.paths import check_order, check_paths
from flo.workflow.check.settings import check_settings
from flo.workflow.definition import BUILT_IN_TERMINALS, START, START_ALIAS, Definition
from flo.workflow.document.places import Places
from flo.workflow.document.problem import Problems, has_errors, nearest, shown
from flo.workflow.document.values import WORKFLOW_NAME
from flo.workflow.graph import Area, areas_of, transitions_of
from flo.workflow.steps import ForEachStep, RunStep, Target, TargetKind


def check(definition: Definition, places: Places, *, whole: bool = True) -> Problems:
    """All that is wrong with a definition. `whole` is false if it has placeholders in it."""
    findings = Findings(places)
    check_names(definition, findings)
    check_references(definition, findings)
    check_settings(definition, findings)
    check_paths(definition, findings)
    if whole and not has_errors(findings.problems):  # other findings would only follow from these
        check_order(definition, findings)
        check_missing(definition, findings)
        check_flow(definition, findings)
    return findings.problems


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def check_names(definition: Definition, findings: Findings) -> None:
    if not WORKFLOW_NAME.fullmatch(definition.name) and definition.name != "?":
        message = (
            f"expected a name of letters, digits, _, -, . and @, {NOT_FIRST}, "
            f"got {shown(definition.name)}"
        )
        findings.error("E119", message, ("name",))
    if any(not character.isprintable() or character.isspace() for character in definition.version):
        message = f"expected a version without spaces, got {shown(definition.version)}"
        findings.error("E119", message, ("version",))
    _check_step_names(definition, findings)
    _check_terminal_names(definition, findings)
    for name, plan in definition.plans.items():
        _check_twice(
            [executor.name for executor in plan.executors],
            ("plans", name, "executors"),
            "E106",
            findings,
        )
    _check_twice(
        [attribute.name for attribute in definition.search_attributes],
        ("searchAttributes",),
        "E113",
        findings,
    )


def _check_step_names(definition: Definition, findings: Findings) -> None:
    seen: set[str] = set()
    for area in areas_of(definition):
        for name, path in area.paths.items():
            reserved = name in (START, START_ALIAS) and path != ("start",)
            if reserved or name in seen:
                hint = f"{name!r} is the start step" if reserved else ""
                findings.error_of_name("E105", f"Duplicate step name: {name!r}", path, hint=hint)
            seen.add(name)


def _check_terminal_names(definition: Definition, findings: Findings) -> None:
    steps = {name for area in areas_of(definition) for name in area.steps}
    for name in definition.terminals:
        path = ("terminals", name)
        if name in BUILT_IN_TERMINALS or name.startswith("flo."):
            findings.error_of_name("E107", f"terminal {name!r} is named like a built-in", path)
        elif name in steps:
            findings.error_of_name("E107", f"terminal {name!r} is named like a step", path)


def _check_twice(names: list[str], path: tuple[str, ...], code: str, findings: Findings) -> None:
    for number, name in enumerate(names):
        if name in names[:number] and name != "?":
            where = (*path, f"[{number}]", "name")
            findings.error(code, f"Duplicate name: {name!r}", where)


# ── references ────────────────────────────────────────────────────────────────────────────────────


def check_references(definition: Definition, findings: Findings) -> None:
    for area in areas_of(definition):
        goals = [*area.steps, *definition.terminals, *BUILT_IN_TERMINALS]
        for name, step in area.steps.items():
            _check_goals(definition, area, name, goals, findings)
            if isinstance(step, RunStep):
                _check_target(definition, step.run, (*area.paths[name], "run"), findings)
            if isinstance(step, RunStep) and step.rollback is not None:
                path = (*area.paths[name], "rollback", "run")
                _check_target(definition, step.rollback.run, path, findings)
            if isinstance(step, ForEachStep):
                path = (*area.paths[name], "forEach", "run")
                _check_target(definition, step.for_each.run, path, findings)


def _check_goals(
    definition: Definition, area: Area, name: str, goals: list[str], findings: Findings
) -> None:
    for transition in transitions_of(area.steps[name]):
        if transition.goal in area.steps or definition.ending_of(transition.goal) is not None:
            continue
        if findings.problems.full:
            return
        hint = nearest(transition.goal, goals)
        if area.parallel and transition.goal in (START, *definition.steps):
            hint = f"a branch ends at a terminal; what follows is said by step {area.parallel!r}"
        findings.error(
            "E201",
            f"Invalid transition target {transition.goal!r} from step {name!r}",
            (*area.paths[name], *transition.path),
            hint=hint,
        )


def _check_target(
    definition: Definition, target: Target, path: tuple[str, ...], findings: Findings
) -> None:
    if target.kind is TargetKind.PLAN and target.name not in definition.plans:
        hint = nearest(target.name, definition.plans)
        message = f"plan {target.name!r} is not defined under plans"
        findings.error("E203", message, path, hint=hint)
    if target.kind is TargetKind.WORKFLOW and target.name == definition.name:
        message = f"workflow {target.name!r} runs itself"
        hint = "make sure that one of its paths does not"
        findings.warning("E204", message, path, hint=hint)
