"""Reads single values of a document: numbers, durations, choices, names, targets."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from flo.model.blocks.names import parse_reference
from flo.model.errors import Rejected
from flo.model.ids import ACTION_NAME_LENGTH_MAX, check_json, name_pattern
from flo.model.pipelines.names import NAME_LENGTH_MAX
from flo.workflow.document.fields import WRITTEN_TARGETS, Field
from flo.workflow.document.nodes import Node, Scalar, kind_of, plain
from flo.workflow.document.problem import nearest, shown
from flo.workflow.mapping import MARK, step_name
from flo.workflow.retry import Backoff
from flo.workflow.steps import JOIN_ALL, JOIN_ANY, Target, TargetKind

Number = TypeVar("Number", int, float)

NAME: Final = name_pattern(r"\w-")
"""Of steps: a dot would end the name in a path."""
PLAN_NAME: Final = name_pattern(r"\w.-")
WORKFLOW_NAME: Final = name_pattern(r"\w.@-")

_ACTION_NAME = name_pattern(r"\w.:@-")
_GRAPH_NAME = name_pattern(r"\w.:@-")
_VERSION = re.compile(r"[^\s:]{1,256}")
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_DURATIONS = re.compile(r"([0-9]{1,12}(ms|s|m|h|d)){1,5}")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MORE_CHOICES: Final[dict[type[StrEnum], dict[str, StrEnum]]] = {
    Backoff: {
        "exp": Backoff.EXPONENTIAL,
        "expjitter": Backoff.EXPONENTIAL_JITTER,
    }
}


class WrongValue(Exception):
    """The value cannot stand there. Without a code, it is a matter of bounds."""

    def __init__(self, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def read_text(node: Node, field: Field) -> str:
    if field.name == "version" and isinstance(node, Scalar) and not isinstance(node.value, bool):
        text = node.text  # `version: 1.0` means the text, not the number
    else:
        text = _text(node)
    least, most = field.kind.least or 0, field.kind.most
    if len(text) < least:
        raise WrongValue(f"expected {field.key}, got an empty text")
    if most is not None and len(text) > most:
        raise WrongValue(f"expected a text of at most {most} characters, got {len(text)}", "E119")
    return text


def read_integer(node: Node, field: Field) -> int:
    value = node.value if isinstance(node, Scalar) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_number("a whole number", node)
    return _bounded(value, field)


def read_number(node: Node, field: Field) -> float:
    value = node.value if isinstance(node, Scalar) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong_number("a number", node)
    if field.kind.over is not None and value <= field.kind.over:
        raise WrongValue(f"expected {field.key} above {field.kind.over}, got {value}")
    return _bounded(float(value), field)


def read_duration(node: Node, field: Field) -> int:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, str) and _DURATIONS.fullmatch(value):
        parts = _DURATION.findall(value)
        return _bounded(sum(int(number) * _UNITS[unit] for number, unit in parts), field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_number("milliseconds, or a duration such as 30s, 5m or 1h30m", node)
    return _bounded(value, field)


def read_boolean(node: Node, field: Field) -> bool:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, bool):
        return value
    word = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(value).lower())
    hint = f"write {word}" if word else ""
    raise WrongValue(f"expected true or false, got {kind_of(node)}", "E115", hint)


def read_choice(node: Node, field: Field) -> StrEnum:
    choices: dict[str, StrEnum] = {_folded(one.value): one for one in field.kind.type}
    text = _text(node)
    found = choices.get(_folded(text)) or _MORE_CHOICES.get(field.kind.type, {}).get(_folded(text))
    if found is None:
        expected = ", ".join(one.value for one in choices.values())
        hint = nearest(text, [one.value for one in choices.values()])
        message = f"expected {field.key} to be one of {expected}, got {shown(text)}"
        raise WrongValue(message, "E118", hint)
    return found


def read_path(node: Node, field: Field) -> str:
    text = _text(node)
    return text if text.startswith("$") else MARK + text


def read_template(node: Node, field: Field) -> str:
    text = _text(node)
    if not text:
        raise WrongValue(f"expected {field.key}, got an empty text")
    return text


def read_join(node: Node, field: Field) -> int:
    match node:
        case Scalar(value="all"):
            return JOIN_ALL
        case Scalar(value="any"):
            return JOIN_ANY
        case Scalar(value=int() as count) if not isinstance(count, bool):
            if count < 1:
                raise WrongValue(f"expected join to be all, any or at least 1, got {count}")
            return _bounded(count, field)
        case _:
            raise WrongValue(
                f"expected join to be all, any or a number, got {kind_of(node)}", "E115"
            )


def read_goal(node: Node, field: Field) -> str:
    return goal_of(node)


VALUES: Final[dict[str, Callable[[Node, Field], Any]]] = {
    "text": read_text,
    "integer": read_integer,
    "number": read_number,
    "duration": read_duration,
    "boolean": read_boolean,
    "choice": read_choice,
    "path": read_path,
    "template": read_template,
    "join": read_join,
    "goal": read_goal,
}
"""Kind of a field → how its value is read."""


def goal_of(node: Node) -> str:
    """The step or terminal that something leads to."""
    text = _text(node)
    if not text:
        raise WrongValue("expected a step or a terminal, got an empty text")
    return step_name(text)


def target_of(node: Node, allowed: tuple[TargetKind, ...]) -> Target:
    text = _text(node)
    expected = ", ".join(f"{kind.value}name" for kind in allowed)
    kind = next((kind for kind in TargetKind if text.startswith(kind.value)), None)
    found = _target(kind, text.removeprefix(kind.value)) if kind else None
    if found is None or found.kind not in allowed:
        raise WrongValue(f"expected {expected}, got {shown(text)}", "E202", _target_hint(text))
    return found


def _target(kind: TargetKind, rest: str) -> Target | None:
    name, colon, version = rest.partition(":")
    match kind:
        case TargetKind.ACTION:
            return Target(kind=kind, name=rest) if _is_action_name(rest) else None
        case TargetKind.PLAN:
            return Target(kind=kind, name=rest) if PLAN_NAME.fullmatch(rest) else None
        case TargetKind.PIPELINE:
            return Target(kind=kind, name=rest) if _is_graph_name(rest) else None
        case TargetKind.BLOCK:
            reference = parse_reference(rest) if "/" in rest else None
            if reference is None:
                return None
            block, numbers = reference
            return Target(kind=kind, name=str(block), version=".".join(map(str, numbers)))
        case TargetKind.OUTCOME:
            return None
        case TargetKind.WORKFLOW:
            if not WORKFLOW_NAME.fullmatch(name) or (colon and not _VERSION.fullmatch(version)):
                return None
            return Target(kind=kind, name=name, version=version or None)


def _is_action_name(text: str) -> bool:
    return len(text) <= ACTION_NAME_LENGTH_MAX and _ACTION_NAME.fullmatch(text) is not None


def _is_graph_name(text: str) -> bool:
    return len(text) <= NAME_LENGTH_MAX and _GRAPH_NAME.fullmatch(text) is not None


def _target_hint(text: str) -> str:
    prefix, slash, rest = text.partition("/")
    if slash and rest:
        hint = nearest(prefix, [kind.value[:-1] for kind in WRITTEN_TARGETS])
        return "" if prefix + slash in tuple(TargetKind) else hint
    return f'did you mean "@actions/{text}"?' if _is_action_name(text) else ""


def json_text(node: Node) -> str:
    """A text as it is written; anything else as the JSON that it means."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    value = plain(node)
    try:
        check_json(value, "the value")
    except Rejected as error:
        raise WrongValue(error.message) from error
    return msgspec.json.encode(value).decode()


def _text(node: Node) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    hint = f'write it in quotes: "{node.text}"' if isinstance(node, Scalar) and node.text else ""
    raise WrongValue(f"expected a text, got {kind_of(node)}", "E115", hint)


def _bounded(value: Number, field: Field) -> Number:
    least, most = field.kind.least, field.kind.most
    if least is not None and value < least:
        raise WrongValue(f"expected {field.key} of at least {least}, got {value}")
    if most is not None and value > most:
        raise WrongValue(f"expected {field.key} of at most {most}, got {value}")
    return value


def _wrong_number(expected: str, node: Node) -> WrongValue:
    hint = ""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        digits = node.value.replace("_", "").strip()
        if digits.isascii() and digits.isdigit():
            hint = f"write {int(digits)}, without quotes and without leading zeros"
    return WrongValue(f"expected {expected}, got {kind_of(node)}", "E115", hint)


def _folded(text: str) -> str:
    return text.replace("-", "").replace("_", "").lower()
