"""A neops document read and checked: its definition, or what is wrong with it and where.

A document is neops' if its root has `seedEntity`; ours has none.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from flo.model.errors import Invalid
from flo.workflow.cron import parse_cron
from flo.workflow.definition import Definition
from flo.workflow.document.nodes import (
    Composed,
    DocumentRefused,
    Mapping,
    Node,
    Sequence,
    plain,
)
from flo.workflow.document.parse import compose
from flo.workflow.document.places import Path, Places, dotted
from flo.workflow.document.problem import Problem, Severity, has_errors, in_order, problem
from flo.workflow.jmes import ExpressionError, compile_expression
from flo.workflow.neops.document import CommonFields, EmbeddedStep, JmesCondition, RootWorkflow
from flo.workflow.neops.templates import parameters_text
from flo.workflow.neops.translate import translate
from flo.workflow.neops.values import ExpressionPlace

MARK: Final = "seedEntity"
STEPS_IN_ALL_MAX: Final = 200
_AT = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def composed_neops(text: str) -> Composed | None:
    """The nodes of a neops document; None if it is none, or none that can be read."""
    try:
        composed = compose(text.removeprefix("\ufeff"))
    except DocumentRefused:
        return None
    root = composed.root
    is_neops = isinstance(root, Mapping) and any(entry.key == MARK for entry in root.entries)
    return composed if is_neops else None


def read_neops(composed: Composed) -> tuple[Definition | None, tuple[Problem, ...]]:
    """The definition, and what is wrong; never raises for what is in the document."""
    places = _places_of(composed.root)
    found = list(composed.problems)
    definition = None
    try:
        root = msgspec.convert(plain(composed.root), RootWorkflow, strict=True)
        found += _problems(root, places)
        if not has_errors(found):
            definition = translate(root)
    except msgspec.ValidationError as error:
        found.append(_unfit(str(error), places))
    except ExpressionError as error:
        found.append(problem("E205", str(error), places.value(())))
    except RecursionError:
        found.append(problem("E111", "the document is too deep", places.value(())))
    return (None if has_errors(found) else definition), in_order(found)


def _problems(root: RootWorkflow, places: Places) -> Iterator[Problem]:
    labels: set[str] = set()
    count = 0
    for step, path in _all_steps(root, ("steps",)):
        count += 1
        at = ".".join(path[:-1]) + "." + step.label
        if at in labels:
            message = f"two steps have the label {step.label!r}"
            yield problem("E105", message, places.key((*path, "label")), dotted(path))
        labels.add(at)
    if count > STEPS_IN_ALL_MAX:
        message = f"expected at most {STEPS_IN_ALL_MAX} steps in all, got {count}"
        yield problem("E111", message, places.key(("steps",)), "steps")
    if root.seed_entity == "client":
        message = "there are no contexts of clients yet: seedEntity client cannot be run"
        yield problem("E118", message, places.value((MARK,)), MARK)
    yield from _of_expressions(root, (), places)
    for step, path in _all_steps(root, ("steps",)):
        yield from _of_expressions(step, path, places)
    yield from _of_cron(root, places)
    yield from _of_fields_without_effect(root, places)


def _of_expressions(step: CommonFields, path: Path, places: Places) -> Iterator[Problem]:
    conditions: dict[Path, JmesCondition | None] = {("condition",): step.condition}
    if step.retry_config is not None:
        conditions["retryConfig", "condition"] = step.retry_config.condition
    if step.repeat_config is not None:
        conditions["repeatConfig", "condition"] = step.repeat_config.condition
    conditions |= {("assert", f"[{number}]"): one for number, one in enumerate(step.asserts)}
    for inner, condition in conditions.items():
        if condition is not None:
            yield from _of_expression(condition.jmes, (*path, *inner, "jmes"), places)
    try:
        parameters_text(step.parameters, step.raw_parameters, ExpressionPlace())
    except ExpressionError as error:
        inner = (*path, "parameters")
        yield problem("E205", str(error), places.value(inner), dotted(inner))


def _of_expression(text: str, path: Path, places: Places) -> Iterator[Problem]:
    try:
        compile_expression(text)
    except ExpressionError as error:
        yield problem("E205", str(error), places.value(path), dotted(path))


def _of_cron(root: RootWorkflow, places: Places) -> Iterator[Problem]:
    enabled = [(number, one) for number, one in enumerate(root.cron) if one.enabled]
    for number, entry in enabled[1:]:
        message = f"one schedule can be enabled, and {entry.title!r} is another"
        yield problem("E407", message, places.key(("cron", f"[{number}]")), f"cron[{number}]")
    for number, entry in enabled[:1]:
        path = ("cron", f"[{number}]", "crontab")
        tab = entry.crontab
        if tab.second not in ("0", "00"):
            message = f"a schedule begins with a minute: expected second 0, got {tab.second!r}"
            yield problem("E407", message, places.value((*path, "second")), dotted(path))
        text = " ".join((tab.minute, tab.hour, tab.day_of_month, tab.month, tab.day_of_week))
        try:
            parse_cron(text, tab.timezone)
        except Invalid as error:
            yield problem("E407", error.message, places.value(path), dotted(path))
        if root.seed_entity != "global":
            message = "a schedule can start a workflow for no entity: expected seedEntity global"
            yield problem("E407", message, places.key(path), dotted(path))


def _of_fields_without_effect(root: RootWorkflow, places: Places) -> Iterator[Problem]:
    """Warnings of what is accepted, and has no effect here."""
    for step, path in _all_steps(root, ("steps",)):
        if isinstance(step, EmbeddedStep) and step.config is not None:
            message = "the steps of an embedded workflow always follow each other"
            place = places.key((*path, "config"))
            yield problem("E501", message, place, dotted(path), severity=Severity.WARNING)


def _all_steps(
    parent: RootWorkflow | EmbeddedStep, path: Path
) -> Iterator[tuple[CommonFields, Path]]:
    for number, step in enumerate(parent.steps):
        inner = (*path, f"[{number}]")
        yield step, inner
        if isinstance(step, EmbeddedStep):
            yield from _all_steps(step, (*inner, "steps"))


def _unfit(message: str, places: Places) -> Problem:
    """What msgspec says of a value, at its place."""
    found = _AT.search(message)
    path: Path = ()
    if found is not None:
        message = message[: found.start()]
        parts = _PART.findall(found["path"])
        path = tuple(name or f"[{number}]" for name, number in parts)
    code = "E114" if "unknown field" in message else "E115"
    if "missing required field" in message:
        code = "E117"
    return problem(code, message.replace("Object", "the object"), places.value(path), dotted(path))


def _places_of(root: Node) -> Places:
    places = Places()
    waiting: list[tuple[Path, Node]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, Mapping):
            for entry in node.entries:
                places.note((*path, entry.key), entry.place, entry.node.place)
                waiting.append(((*path, entry.key), entry.node))
        elif isinstance(node, Sequence):
            for number, inner in enumerate(node.nodes):
                places.note((*path, f"[{number}]"), inner.place, inner.place)
                waiting.append(((*path, f"[{number}]"), inner))
    return places
