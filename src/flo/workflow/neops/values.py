"""Values that a neops definition computes: JMESPath over parameters, context and earlier steps.

    {{ get_version.result.data.version }}   ──translate.py──▸   $neops:{}
                                                                get_version.result.data.version

    parameters              those of the run, over the defaults of the definition
    context                 the entities of the run
    LABEL.result.data       what the step reported; `.success`, `.message`, `LABEL.status`
    steps."NAME"            a step by the name that it has in the engine, with `visits` and `error`;
                            steps."$input" is the input of the run

The first line says where the expression stands: inside which embedded workflows, and with which
defaults. No label is called `steps`, so the names of the engine cannot be taken for labels.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from flo.workflow.jmes import Expression, ExpressionError, compile_expression

EXPRESSION_MARK: Final = "$neops:"
INPUT: Final = "$input"
NESTED_PARAMETERS: Final = "-in"
"""Behind the prefix of an embedded workflow: the step whose output its parameters are."""


class ExpressionPlace(msgspec.Struct, omit_defaults=True):
    """Where an expression stands."""

    inside: list[str] = []
    """The prefixes of the names of steps, outermost first: `("", "outer-")` within `outer`."""
    defaults: dict[str, Any] = {}


class SeenStep(Protocol):
    @property
    def outcome(self) -> str: ...
    @property
    def output(self) -> Any: ...
    @property
    def error(self) -> str | None: ...
    @property
    def error_code(self) -> str | None: ...
    @property
    def visits(self) -> int: ...


class Sight(Protocol):
    """What a value is computed from; the Scope of mapping.py is one."""

    @property
    def input(self) -> Any: ...
    @property
    def steps(self) -> Mapping[str, Any]: ...
    @property
    def context(self) -> Any: ...


class ComputedValue(NamedTuple):
    """An expression, ready to be evaluated."""

    resolve: Callable[[Any], Any]
    seen: frozenset[str]
    """The steps that it looks at, and `context`."""


def engine_name(name: str) -> str:
    """What a step is called in the engine, where `start` is the step that begins everything."""
    return f"{name}-step" if name in ("start", "_start") else name


def expression_text(expression: str, place: ExpressionPlace) -> str:
    """What stands in a mapping for an expression."""
    return f"{EXPRESSION_MARK}{msgspec.json.encode(place).decode()}\n{expression}"


def compile_value(text: str) -> ComputedValue:
    """The value that a text of `expression_text` stands for; raises ExpressionError."""
    head, _, expression = text.removeprefix(EXPRESSION_MARK).partition("\n")
    try:
        place = msgspec.json.decode(head, type=ExpressionPlace)
    except msgspec.MsgspecError as error:
        raise ExpressionError(
            f"expected a place before an expression, got {head[:80]!r}"
        ) from error
    compiled = compile_expression(expression)
    return ComputedValue(lambda scope: _value(compiled, scope, place), _seen(compiled, place))


def _value(expression: Expression, scope: Sight, place: ExpressionPlace) -> Any:
    return expression.value(_Root(scope, place))


def _seen(expression: Expression, place: ExpressionPlace) -> frozenset[str]:
    names = expression.roots() - {"parameters"}
    if "parameters" in expression.roots() and place.inside:
        names |= {place.inside[-1] + NESTED_PARAMETERS}
    return names


class _Root(dict[str, Any]):
    """What an expression begins with; only what it asks for is made."""

    def __init__(self, scope: Sight, place: ExpressionPlace) -> None:
        super().__init__()
        self._scope, self._place = scope, place

    def get(self, key: str, default: Any = None) -> Any:
        match key:
            case "parameters":
                return self._parameters()
            case "context":
                return self._scope.context
            case "steps":
                return _Steps(self._scope)
            case _:
                return self._step(key)

    def _parameters(self) -> dict[str, Any]:
        given = self._scope.input
        own = given.get("parameters") if isinstance(given, dict) else None
        found = {**self._place.defaults, **(own if isinstance(own, dict) else {})}
        for prefix in self._place.inside:
            nested = self._scope.steps.get(prefix + NESTED_PARAMETERS)
            if nested is not None and isinstance(nested.output, dict):
                found |= nested.output
        return found

    def _step(self, label: str) -> dict[str, Any] | None:
        """The step with this label: the innermost one."""
        for prefix in (*reversed(self._place.inside), ""):
            found = self._scope.steps.get(engine_name(prefix + label))
            if found is not None:
                return described(found)
        return None


class _Steps(dict[str, Any]):
    """The steps by their names in the engine."""

    def __init__(self, scope: Sight) -> None:
        super().__init__()
        self._scope = scope

    def get(self, key: str, default: Any = None) -> Any:
        if key == INPUT:
            return self._scope.input
        found = self._scope.steps.get(key)
        return described(found) if found is not None else None


def described(step: SeenStep) -> dict[str, Any]:
    """What an expression finds of a step."""
    succeeded = step.outcome == "success"
    return {
        "status": "success" if succeeded else "failed",
        "result": {"success": succeeded, "message": step.error or "", "data": step.output},
        "error": step.error,
        "errorCode": step.error_code,
        "visits": step.visits,
    }
