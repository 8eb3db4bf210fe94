"""The texts of a definition that have paths in them, and where they stand."""

from collections.abc import Iterator
from typing import NamedTuple

from flo.workflow.definition import Definition
from flo.workflow.document.places import Path
from flo.workflow.graph import areas_of
from flo.workflow.mapping import Compiled, compile_mapping, compile_template
from flo.workflow.steps import ForEachStep, ParallelStep, RunStep, SignalStep, SleepStep, Step


class PathUse(NamedTuple):
    """A text with paths in it, and where it stands."""

    compiled: Compiled
    path: Path
    code: str = "E205"
    """Of a path that is not well-formed."""
    before: str = ""
    """The step before whose end it is resolved; empty if that may be at the end of the run."""
    undoes: str = ""
    """The step that it is resolved to undo."""
    with_item: bool = False
    only_input: bool = False


def uses_of(definition: Definition) -> Iterator[PathUse]:
    for area in areas_of(definition):
        for name, step in area.steps.items():
            yield from _uses_of_step(name, step, area.paths[name])
    if definition.output is not None:
        yield PathUse(compile_mapping(definition.output), ("output",))
    for number, attribute in enumerate(definition.search_attributes):
        path = ("searchAttributes", f"[{number}]", "from")
        yield PathUse(compile_mapping(attribute.path), path, only_input=True)
    if definition.concurrency is not None:
        key = compile_template(definition.concurrency.key)
        yield PathUse(key, ("concurrency", "key"), code="E208", only_input=True)
    for where, start in (("schedule", definition.schedule), ("trigger", definition.trigger)):
        if start is not None and start.subject:
            subject = compile_template(start.subject)
            yield PathUse(subject, (where, "subject"), code="E208", only_input=True)
    for name, plan in definition.plans.items():
        if plan.cache is not None:
            key = compile_template(plan.cache.key)
            yield PathUse(key, ("plans", name, "cache", "key"), code="E208")


def _uses_of_step(name: str, step: Step, path: Path) -> Iterator[PathUse]:
    match step:
        case RunStep():
            if step.input_mapping is not None:
                mapping = compile_mapping(step.input_mapping)
                yield PathUse(mapping, (*path, "inputMapping"), before=name)
            if step.rollback is not None and step.rollback.input_mapping is not None:
                mapping = compile_mapping(step.rollback.input_mapping)
                yield PathUse(mapping, (*path, "rollback", "inputMapping"), undoes=name)
        case ForEachStep(for_each=each):
            yield PathUse(compile_mapping(each.items), (*path, "forEach", "items"), before=name)
            if each.input_mapping is not None:
                mapping = compile_mapping(each.input_mapping)
                where = (*path, "forEach", "inputMapping")
                yield PathUse(mapping, where, before=name, with_item=True)
        case SleepStep(sleep=sleep):
            for key, text in (("duration_from", sleep.duration_from), ("until", sleep.until)):
                if text is not None:
                    yield PathUse(compile_mapping(text), (*path, "sleep", key), before=name)
        case SignalStep() | ParallelStep():
            pass
