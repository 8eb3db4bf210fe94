"""Warnings of signals whose type no step of the workflow waits for."""

from flo.engine.workflows.execution import Execution
from flo.workflow.definition import Definition
from flo.workflow.document.problem import nearest
from flo.workflow.graph import areas_of
from flo.workflow.steps import SignalStep

TYPES_NAMED_MAX = 10


def awaited_types(definition: Definition) -> list[str]:
    """The types of signals that some step waits for, each once."""
    return list(
        dict.fromkeys(
            step.wait_for_signal.type
            for area in areas_of(definition)
            for step in area.steps.values()
            if isinstance(step, SignalStep)
        )
    )


def signal_warning(definition: Definition, kind: str) -> str | None:
    """That a signal is kept, and no step will take it; None if one may."""
    types = awaited_types(definition)
    if kind in types:
        return None
    hint = nearest(kind, types)
    if not hint and types:
        hint = f"they wait for {', '.join(map(repr, types[:TYPES_NAMED_MAX]))}"
    return (
        f"no step of workflow {definition.name!r} waits for a signal of type {kind!r}; it is kept"
        + (f"; {hint}" if hint else "")
    )


def untaken_signals(execution: Execution) -> list[str]:
    """Of the signals that are kept, the types that no step waits for."""
    types = awaited_types(execution.definition)
    kept = dict.fromkeys(signal.type for signal in execution.signals)
    return [kind for kind in kept if kind not in types]
