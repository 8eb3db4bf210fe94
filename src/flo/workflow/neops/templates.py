"""`{{ }}` in the parameters of a neops step, and what must be kept from being read as a path.

"{{ parameters.site }}"             the value itself, of whatever type
"vlan {{ parameters.vlan }} up"     a text with the value in it
rawParameters                       as they are
"""

from typing import Any, Final

import msgspec

from flo.workflow.jmes import ExpressionError, compile_expression
from flo.workflow.neops.values import ExpressionPlace, expression_text

OPEN: Final = "{{"
CLOSE: Final = "}}"
VALUE_DEPTH_MAX: Final = 50


def parameters_text(written: dict[str, Any], raw: dict[str, Any], place: ExpressionPlace) -> str:
    """The mapping that makes the parameters of a step; raises ExpressionError."""
    made = {name: filled(value, place) for name, value in written.items()}
    kept = {name: literal(value, place) for name, value in raw.items()}
    return msgspec.json.encode({**made, **kept}).decode()


def filled(value: Any, place: ExpressionPlace, depth: int = 0) -> Any:
    """The value with its templates as expressions."""
    if depth > VALUE_DEPTH_MAX:
        raise ExpressionError(f"expected at most {VALUE_DEPTH_MAX} levels in a value")
    match value:
        case str() if OPEN in value:
            return expression_text(_expression(value), place)
        case str() if value.startswith("$"):
            return expression_text(literal_text(value), place)
        case dict():
            return {name: filled(inner, place, depth + 1) for name, inner in value.items()}
        case list():
            return [filled(inner, place, depth + 1) for inner in value]
        case _:
            return value


def literal(value: Any, place: ExpressionPlace, depth: int = 0) -> Any:
    """The value as it is, also where a text in it looks like a path."""
    if depth > VALUE_DEPTH_MAX:
        raise ExpressionError(f"expected at most {VALUE_DEPTH_MAX} levels in a value")
    match value:
        case str() if value.startswith("$"):
            return expression_text(literal_text(value), place)
        case dict():
            return {name: literal(inner, place, depth + 1) for name, inner in value.items()}
        case list():
            return [literal(inner, place, depth + 1) for inner in value]
        case _:
            return value


def literal_text(value: Any) -> str:
    """A value as an expression that is always this value."""
    return f"`{msgspec.json.encode(value).decode().replace('`', chr(92) + '`')}`"


def quoted(name: str) -> str:
    """A name as an expression writes it, whatever signs are in it."""
    return msgspec.json.encode(name).decode()


def _expression(text: str) -> str:
    pieces = _pieces(text)
    if len(pieces) == 1 and not isinstance(pieces[0], str):
        return pieces[0][0]
    parts = (
        literal_text(piece) if isinstance(piece, str) else f"to_string({piece[0]})"
        for piece in pieces
    )
    return f"join('', [{', '.join(parts)}])"


def _pieces(text: str) -> list[str | tuple[str]]:
    """Texts, and expressions as tuples of one."""
    pieces: list[str | tuple[str]] = []
    at = 0
    while (begin := text.find(OPEN, at)) >= 0:
        if text[at:begin]:
            pieces.append(text[at:begin])
        expression, at = _closed(text, begin + len(OPEN))
        pieces.append((expression,))
    if text[at:]:
        pieces.append(text[at:])
    return pieces


def _closed(text: str, begin: int) -> tuple[str, int]:
    """The expression that begins here, up to the first `}}` with which it is one."""
    end, problem = text.find(CLOSE, begin), None
    tries = 0
    while end >= 0 and tries < VALUE_DEPTH_MAX:
        expression = text[begin:end].strip()
        try:
            compile_expression(expression)
        except ExpressionError as error:
            problem = problem or error
            end, tries = text.find(CLOSE, end + 1), tries + 1
        else:
            return expression, end + len(CLOSE)
    raise problem or ExpressionError(f"expected {CLOSE} behind {OPEN} in {text[:80]!r}")
