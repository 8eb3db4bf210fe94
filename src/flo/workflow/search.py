"""Search attributes: taken from an input, and matched by an expression.

    customer_id = "42" and (order_amount > 100 or created_at >= "2026-01-31")

    any    := all ("or" all)*
    all    := one ("and" one)*
    one    := "not" one | "(" any ")" | NAME OP VALUE | NAME "in" "(" VALUE ("," VALUE)* ")"
    OP     := = | == | != | <> | < | <= | > | >=
    VALUE  := "text" | 'text' | number

A comparison with an attribute that is not there is false. A text that is compared with a number is
read as a number, or as the moment of an RFC 3339 time.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from flo.model.errors import Invalid
from flo.workflow.definition import AttributeType, SearchAttribute
from flo.workflow.mapping import Scope, compile_mapping

EXPRESSION_LENGTH_MAX: Final = 4_096
EXPRESSION_DEPTH_MAX: Final = 32
ATTRIBUTE_LENGTH_MAX: Final = 512

Value: TypeAlias = str | int | float
"""A number is a number or epoch milliseconds."""
Attributes: TypeAlias = Mapping[str, Value]


class Compare(NamedTuple):
    name: str
    sign: str
    """One of = != < <= > >="""
    value: Value


class In(NamedTuple):
    name: str
    values: tuple[Value, ...]


class And(NamedTuple):
    parts: "tuple[Expression, ...]"


class Or(NamedTuple):
    parts: "tuple[Expression, ...]"


class Not(NamedTuple):
    part: "Expression"


Expression: TypeAlias = Compare | In | And | Or | Not


# ── taking ────────────────────────────────────────────────────────────────────────────────────────


def attributes_of(wanted: Iterable[SearchAttribute], payload: Any) -> dict[str, Value]:
    """The search attributes of an input; what is not there, or of another type, is left out."""
    scope = Scope(input=payload)
    found = {one.name: _typed(compile_mapping(one.path).resolve(scope), one.type) for one in wanted}
    return {name: value for name, value in found.items() if value is not None}


def _typed(value: Any, kind: AttributeType) -> Value | None:
    if value is None:
        return None
    match kind:
        case AttributeType.STRING:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return text[:ATTRIBUTE_LENGTH_MAX]
        case AttributeType.NUMBER:
            return _number(value)
        case AttributeType.TIMESTAMP:
            return epoch_ms_of(value)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        value = float(value) if any(mark in value for mark in ".eE") else int(value)
    return value if isfinite(value) and -(2**63) <= value < 2**63 else None


def epoch_ms_of(value: Any) -> int | None:
    """Epoch milliseconds: a number is that already, a text is read as RFC 3339."""
    number = _number(value)
    return _context(value) if number is None else int(number)


def _context(value: Any) -> int | None:
    """The epoch milliseconds of an RFC 3339 text; without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        context = datetime.fromisoformat(value)
    except ValueError:
        return None
    context = context if context.tzinfo is not None else context.replace(tzinfo=UTC)
    return int(context.timestamp() * 1_000)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────

_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(expression: Expression, attributes: Attributes) -> bool:
    match expression:
        case Compare(name, sign, value):
            return _compare(attributes.get(name), sign, value)
        case In(name, values):
            return any(_compare(attributes.get(name), "=", value) for value in values)
        case And(parts):
            return all(matches(part, attributes) for part in parts)
        case Or(parts):
            return any(matches(part, attributes) for part in parts)
        case Not(part):
            return not matches(part, attributes)


def _compare(found: Value | None, sign: str, value: Value) -> bool:
    if found is None:
        return False
    wanted = value_like(found, value)
    return wanted is not None and _SIGNS[sign](found, wanted)


def value_like(found: Value, value: Value) -> Value | None:
    """The value in the type of the one that was found; None if it cannot be that."""
    if isinstance(found, str):
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if isinstance(value, str):
        number = _number(value)
        return _context(value) if number is None else number
    return value


# ── indexes ───────────────────────────────────────────────────────────────────────────────────────

TAGS_WANTED_MAX: Final = 20
"""A condition that allows more values than this is not looked up by them."""


def tags_of(attributes: Attributes) -> tuple[str, ...]:
    """What an index finds these attributes by: values that are equal have the same tag."""
    return tuple(_tag(name, value) for name, value in attributes.items())


def tags_wanted(expression: Expression) -> tuple[str, ...] | None:
    """Tags of which whatever matches has at least one; None if there are no such tags."""
    match expression:
        case Compare(name, "=", value):
            return _tags_equal_to(name, value)
        case In(name, values):
            return _any_of([_tags_equal_to(name, value) for value in values])
        case And(parts):
            return next((tags for part in parts if (tags := tags_wanted(part))), None)
        case Or(parts):
            return _any_of([tags_wanted(part) for part in parts])
        case _:
            return None


def _tag(name: str, value: Value) -> str:
    if isinstance(value, str):
        return f"{name}=s{value}"
    return f"{name}=n{int(value) if value == int(value) else value}"


def _tags_equal_to(name: str, value: Value) -> tuple[str, ...]:
    """An attribute of this value is a text or a number."""
    found = (value_like(like, value) for like in ("", 0))
    return tuple(_tag(name, one) for one in found if one is not None)


def _any_of(each: list[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    tags = dict.fromkeys(tag for some in each for tag in some or ())
    return tuple(tags) if None not in each and len(tags) <= TAGS_WANTED_MAX else None


# ── reading an expression ─────────────────────────────────────────────────────────────────────────

_NUMBER = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<sign>==|!=|<>|<=|>=|=|<|>)
      | (?P<mark>[(),])
      | (?P<number>[-+]?[0-9][0-9.eE+-]*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>[^\W\d][\w.-]*)
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SAME: Final = {"==": "=", "<>": "!="}


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def parse_where(text: str) -> Expression:
    """The expression of a text; refuses with the column of the mistake."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise _refusal(f"expected at most {EXPRESSION_LENGTH_MAX} characters", 1)
    parser = _Parser(_tokens(text))
    expression = parser.any_of(0)
    parser.expect("end", "and, or, or the end")
    return expression


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip()
            raise _refusal(f"cannot read {rest[:20]!r}", len(text) - len(rest) + 1)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found.group(kind), found.start(kind) + 1))
        at = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def any_of(self, depth: int) -> Expression:
        parts = [self._all_of(depth)]
        while self._take_word("or"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all_of(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self._take_word("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Expression:
        if depth > EXPRESSION_DEPTH_MAX:
            message = f"expected at most {EXPRESSION_DEPTH_MAX} levels"
            raise _refusal(message, self._next.column)
        if self._take_word("not"):
            return Not(self._one(depth + 1))
        if self._take("mark", "("):
            inner = self.any_of(depth + 1)
            self._expect_mark(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Expression:
        name = self.expect("word", "the name of a search attribute").text
        if self._take_word("in"):
            return In(name, self._values())
        sign = self.expect("sign", "one of =, !=, <, <=, >, >= or in").text
        return Compare(name, _SAME.get(sign, sign), self._value())

    def _values(self) -> tuple[Value, ...]:
        self._expect_mark("(")
        values = [self._value()]
        while self._take("mark", ","):
            values.append(self._value())
        self._expect_mark(")")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next
        if token.kind == "text":
            self._at += 1
            return _ESCAPE.sub(r"\1", token.text[1:-1])
        if token.kind == "number" and (number := _number(token.text)) is not None:
            self._at += 1
            return number
        hint = f': did you mean "{token.text}"?' if token.kind == "word" else ""
        raise _refusal(
            f"expected a number or a text in quotes, got {_seen(token)}{hint}", token.column
        )

    def expect(self, kind: str, expected: str) -> _Token:
        token = self._next
        if token.kind != kind:
            raise _refusal(f"expected {expected}, got {_seen(token)}", token.column)
        self._at += kind != "end"
        return token

    def _expect_mark(self, mark: str) -> None:
        if not self._take("mark", mark):
            raise _refusal(f"expected {mark!r}, got {_seen(self._next)}", self._next.column)

    def _take(self, kind: str, text: str) -> bool:
        taken = self._next.kind == kind and self._next.text == text
        self._at += taken
        return taken

    def _take_word(self, word: str) -> bool:
        taken = self._next.kind == "word" and self._next.text.lower() == word
        self._at += taken
        return taken

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]


def _seen(token: _Token) -> str:
    return "the end" if token.kind == "end" else token.text[:40]


def _refusal(message: str, column: int) -> Invalid:
    return Invalid(
        f"{message} (column {column})", code="invalid_search", details={"column": column}
    )
