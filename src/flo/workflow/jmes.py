"""JMESPath expressions, compiled once, and evaluated within bounds.

An expression is written by whoever publishes a workflow, and evaluated where everybody waits. So
its length is bounded, and so is what it may make: `[@,@][] | [@,@][] | …` doubles a list with every
few signs. Whatever goes wrong is one ExpressionError.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature
from jmespath.parser import ParsedResult
from jmespath.visitor import Options, TreeInterpreter

EXPRESSION_LENGTH_MAX: Final = 4_096
NESTING_MAX: Final = 64
"""Open brackets and `!` in an expression; the parser calls itself for each."""
COMPILED_MAX: Final = 4_096
WORK_MAX: Final = 1_000_000
"""Nodes that are visited, and values that are made, by one evaluation."""


class ExpressionError(ValueError):
    """The expression cannot be read, or has no value here."""


class _Bounded(TreeInterpreter):
    """Counts what it visits and makes, and stops when that is too much."""

    def __init__(self) -> None:
        super().__init__(Options(custom_functions=_BoundedFunctions()))
        self._left = WORK_MAX

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        result = super().visit(node, *args, **kwargs)
        self._left -= 1 + (len(result) if isinstance(result, list | dict | str) else 0)
        if self._left < 0:
            raise ExpressionError("the expression makes too much")
        return result


class _BoundedFunctions(Functions):
    """The functions of JMESPath; a value is weighed before it is written out."""

    @signature({"types": []})
    def _func_to_string(self, arg: Any) -> Any:
        check_weight(arg)
        return arg if isinstance(arg, str) else msgspec.json.encode(arg).decode()


class Expression:
    """An expression that is ready to be evaluated."""

    def __init__(self, text: str, parsed: ParsedResult) -> None:
        self.text = text
        self._tree: Any = parsed.parsed

    def value(self, root: Any) -> Any:
        try:
            found = _Bounded().visit(self._tree, root)
        except (JMESPathError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
            raise ExpressionError(f"{_short(self.text)}: {error}") from error
        check_weight(found)
        return found

    def roots(self) -> frozenset[str]:
        """The names that it looks up in its root; `@` if it takes the root as a whole."""
        return frozenset(_root_names(self._tree))


@lru_cache(maxsize=COMPILED_MAX)
def compile_expression(text: str) -> Expression:
    """Read an expression; raises ExpressionError if it is none."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise ExpressionError(
            f"expected an expression of at most {EXPRESSION_LENGTH_MAX} characters, got {len(text)}"
        )
    if sum(text.count(sign) for sign in "([{!&") > NESTING_MAX * 4 or _depth(text) > NESTING_MAX:
        raise ExpressionError(f"expected at most {NESTING_MAX} levels in an expression")
    try:
        return Expression(text, jmespath.compile(text))
    except (JMESPathError, ValueError, RecursionError, IndexError, Warning) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExpressionError(f"{_short(text)} is no JMESPath: {told}") from error


def check_weight(value: Any) -> None:
    """Refuse a value that is far longer than it seems: a part may stand in it very often."""
    left, waiting = WORK_MAX, [value]
    while waiting:
        one = waiting.pop()
        left -= 1 + (len(one) if isinstance(one, str) else 0)
        if left < 0:
            raise ExpressionError("the expression makes too much")
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _depth(text: str) -> int:
    depth = deepest = 0
    for sign in text:
        if sign in "([{!":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in ")]}":
            depth -= 1
    return deepest


_FIRST_ONLY: Final = frozenset(
    {
        "subexpression",
        "index_expression",
        "pipe",
        "projection",
        "value_projection",
        "filter_projection",
        "flatten",
    }
)
"""Nodes whose first part looks at the root, and whose others look at what that has found."""


def _root_names(tree: Any) -> Iterator[str]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        kind, children = node["type"], node.get("children", ())
        if kind == "field":
            yield node["value"]
        elif kind in ("current", "identity"):
            yield "@"
        elif kind == "expref":
            continue
        elif kind in _FIRST_ONLY:
            waiting.extend(children[:1])
        else:
            waiting.extend(child for child in children if isinstance(child, dict))


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
