"""Warnings of actions that a workflow calls and nobody has registered."""

import re
from collections.abc import Iterator

from flo.engine.state import Space
from flo.model.ids import ActionName
from flo.workflow.definition import Definition
from flo.workflow.document.problem import DocumentPosition, Problem, Severity, nearest, problem
from flo.workflow.graph import called_actions

NOT_REGISTERED = "E211"
NAMED_MAX = 5
"""So many of them are named when a run is started."""


def missing_actions(space: Space, definition: Definition) -> list[ActionName]:
    return [name for name in called_actions(definition) if name not in space.actions]


def problems_of_actions(space: Space, definition: Definition | None, text: str) -> list[Problem]:
    """A warning for each, where it is called first."""
    if definition is None:
        return []
    return [
        problem(
            NOT_REGISTERED,
            f"Action {name!r} is not registered: a step that calls it {_meanwhile(definition)}",
            _first_place(text, name),
            hint=nearest(name, space.actions) or f"register it: flo action register {name}",
            severity=Severity.WARNING,
        )
        for name in missing_actions(space, definition)
    ]


def start_warnings(space: Space, definition: Definition) -> list[str]:
    """What the one who starts a run should know."""
    missing = missing_actions(space, definition)
    if not missing:
        return []
    names = ", ".join(missing[:NAMED_MAX]) + (", …" if len(missing) > NAMED_MAX else "")
    which = "this action is" if len(missing) == 1 else "these actions are"
    return [f"{which} not registered: {names}; a step that calls one {_meanwhile(definition)}"]


def _meanwhile(definition: Definition) -> str:
    if definition.action_wait_ms:
        return f"waits for it, {definition.action_wait_ms} ms at most"
    return "ends with target_not_found"


def _first_place(text: str, name: ActionName) -> DocumentPosition:
    for number, line in enumerate(text.splitlines(), 1):
        for found in _targets(line, name):
            return DocumentPosition(number, found + 1)
    return DocumentPosition(1, 1)


def _targets(line: str, name: ActionName) -> Iterator[int]:
    for found in re.finditer(rf"@actions/{re.escape(name)}(?![\w.:@-])", line):
        yield found.start()
