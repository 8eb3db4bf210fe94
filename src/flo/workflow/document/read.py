"""Text to a definition that can be deployed, or all that is wrong with it."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from flo.model.errors import Invalid
from flo.workflow.check.check import check
from flo.workflow.definition import Definition
from flo.workflow.document.parse import parse
from flo.workflow.document.problem import Problem, Severity, has_errors, in_order
from flo.workflow.document.report import one_line
from flo.workflow.neops.read import MARK, composed_neops, read_neops


class Reading(NamedTuple):
    definition: Definition | None
    """None if there are errors; warnings let it pass."""
    problems: tuple[Problem, ...]


def read(text: str) -> Reading:
    """Parse and check a document, ours or neops'; never raises for what is in it."""
    if MARK in text and (composed := composed_neops(text)) is not None:
        return Reading(*read_neops(composed))
    definition, problems, places = parse(text)
    broken = has_errors(problems)
    if definition is not None:
        problems = in_order((*problems, *check(definition, places, whole=not broken)))
        broken = has_errors(problems)
    return Reading(None if broken else definition, problems)


def strictly(reading: Reading) -> Reading:
    """The same with every warning as an error."""
    problems = tuple(replace(one, severity=Severity.ERROR) for one in reading.problems)
    return Reading(None if problems else reading.definition, problems)


def read_or_refuse(text: str) -> tuple[Definition, tuple[Problem, ...]]:
    """The definition and its warnings; refuses with every problem in the details."""
    definition, problems = read(text)
    if definition is None:
        first = next(one for one in problems if one.severity == "error")
        raise Invalid(
            one_line(first),
            code="invalid_workflow",
            details={"problems": msgspec.to_builtins(problems)},
        )
    return definition, problems
