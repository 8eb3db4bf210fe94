"""$.input and $.steps paths resolved to a step's input; templates resolved to keys.

    '{"email": "$.steps.enrich.output.email", "amount": "$.input.amount"}'     a mapping
    "$.steps.ship.output"                                                      a path
    "charge:{input.customer_id}:{input.idempotency_key}"                       a template

    $.input                       the input of the workflow run
    $.input.items[0].sku          a part of it; `items.0.sku` and `["odd key"]` work too
    $.steps.NAME.output           the output of a step; of a signal wait, the payload of the signal
    $.steps.NAME.outcome          its outcome; of a wait for a signal in vain, `timeout`
    $.steps.NAME.error            why it has failed; `error_code` is what kind of error it was
                                  (the start step is called `start` or `_start`)
    $.flo.run_id                  the id of the workflow run
    $.flo.timestamp               epoch milliseconds of now
    $.item, $.index               in forEach: the item, and its number from 0
    $.secrets.NAME                a secret: the text itself, in place of which the worker is given
                                  the value, if its action names the secret

    {from: $.steps.charge.output.id, default: none}      what it is if it is not there, or null
    $neops:…                      what a neops definition computes (neops/values.py); no document
                                  of ours writes it

Each text is compiled once and resolved many times. What is not there is null. A text that is
neither JSON nor a path is passed on as it is. A payload that is not JSON can only be passed on
whole: by a mapping that is nothing but `$.input` or `$.steps.NAME.output`.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from flo.workflow.definition import START, START_ALIAS
from flo.workflow.neops.values import EXPRESSION_MARK, compile_value

COMPILED_MAX: Final = 8_192
PATH_LENGTH_MAX: Final = 1_024
MARK: Final = "$."


class Root(StrEnum):
    """Where a path begins."""

    INPUT = "input"
    OUTPUT = "output"
    OUTCOME = "outcome"
    ERROR = "error"
    ERROR_CODE = "error_code"
    RUN_ID = "run_id"
    TIMESTAMP = "timestamp"
    ITEM = "item"
    INDEX = "index"
    SECRET = "secret"


class Key(NamedTuple):
    """One part of a path: a name in an object, and perhaps a number in a list."""

    name: str
    number: int | None


class Path(NamedTuple):
    root: Root
    step: str = ""
    keys: tuple[Key, ...] = ()
    text: str = ""
    """As it is written."""
    has_default: bool = False
    """Whether the mapping says what stands there if nothing is found, or is that itself."""


class PathError(ValueError):
    """The path is not well-formed."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class StepValue(NamedTuple):
    outcome: str
    output: Any = None
    error: str | None = None
    error_code: str | None = None
    visits: int = 0
    """How often it was begun."""


class Scope(NamedTuple):
    """What paths can see."""

    input: Any = None
    steps: Mapping[str, StepValue] = {}
    run_id: str = ""
    now_ms: int = 0
    item: Any = None
    item_index: int | None = None
    context: Any = None
    """The entities of the run, as neops definitions see them."""


Resolver: TypeAlias = Callable[[Scope], Any]


class Compiled(NamedTuple):
    """A mapping or a template, ready to be resolved."""

    resolve: Resolver
    paths: tuple[Path, ...] = ()
    errors: tuple[PathError, ...] = ()
    """Of paths that are not well-formed; they resolve to null."""
    whole: Path | None = None
    """The path of an input or output, if there is nothing else: it is passed on as it is."""
    seen: frozenset[str] = frozenset()
    """The steps, or the context, that its expressions look at."""

    @property
    def steps(self) -> frozenset[str]:
        """The steps whose results it looks at."""
        return self.seen.union(path.step for path in self.paths if path.step)


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────

_PART = re.compile(r"""\.([^.\[\]{}"'\s]+)|\[(-?[0-9]{1,9})\]|\["([^"]*)"\]|\['([^']*)'\]""")
_INDEX = re.compile(r"[0-9]{1,9}")
_ROOTS: Final = "$.input, $.steps, $.flo, $.secrets, $.item or $.index"
_EXPECTED: Final = {
    "steps": "$.steps.NAME.output, outcome, error or error_code",
    "flo": "$.flo.run_id or $.flo.timestamp",
    "index": "$.index",
    "secrets": "$.secrets.NAME",
}


@lru_cache(maxsize=COMPILED_MAX)
def parse_path(text: str) -> Path:
    """The path of a text that begins with `$.`."""
    parts = _parts(text)
    match [key.name for key in parts]:
        case ["input", *_]:
            return Path(Root.INPUT, keys=parts[1:], text=text)
        case ["item", *_]:
            return Path(Root.ITEM, keys=parts[1:], text=text)
        case ["index"]:
            return Path(Root.INDEX, text=text)
        case ["secrets", _]:
            return Path(Root.SECRET, text=text)
        case ["flo", "run_id"]:
            return Path(Root.RUN_ID, text=text)
        case ["flo", "timestamp"]:
            return Path(Root.TIMESTAMP, text=text)
        case ["steps", step, "output", *_]:
            return Path(Root.OUTPUT, step_name(step), parts[3:], text)
        case ["steps", step, "outcome" | "error" | "error_code" as root]:
            return Path(Root(root), step_name(step), text=text)
        case [root, *_]:
            raise PathError(f"expected {_EXPECTED.get(root, _ROOTS)}, got {text!r}", text)
        case _:
            raise PathError(f"expected {_ROOTS}, got {text!r}", text)


def _parts(text: str) -> tuple[Key, ...]:
    if not text.startswith(MARK):
        raise PathError(f"expected a path that begins with $., got {text!r}", text)
    if len(text) > PATH_LENGTH_MAX:
        raise PathError(f"expected a path of at most {PATH_LENGTH_MAX} characters", text)
    parts: list[Key] = []
    at = 1
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise PathError(f"expected .name or [number], got {text[at:]!r} in {text!r}", text)
        parts.append(_key(found))
        at = found.end()
    return tuple(parts)


def _key(found: re.Match[str]) -> Key:
    name, number, double, single = found.groups()
    if number is not None:
        return Key(number, int(number))
    if name is not None:
        return Key(name, int(name) if _INDEX.fullmatch(name) else None)
    return Key(double if double is not None else single, None)


def step_name(name: str) -> str:
    return START if name == START_ALIAS else name


def path_resolver(path: Path) -> Resolver:
    """A function that finds the path in a scope."""
    keys, step = path.keys, path.step
    match path.root:
        case Root.INPUT:
            return lambda scope: _walk(scope.input, keys)
        case Root.ITEM:
            return lambda scope: _walk(scope.item, keys)
        case Root.INDEX:
            return lambda scope: scope.item_index
        case Root.RUN_ID:
            return lambda scope: scope.run_id
        case Root.TIMESTAMP:
            return lambda scope: scope.now_ms
        case Root.SECRET:
            reference = path.text
            return lambda _: reference
        case Root.OUTCOME | Root.ERROR | Root.ERROR_CODE as root:
            return lambda scope: getattr(scope.steps.get(step), root.value, None)
        case Root.OUTPUT:
            return lambda scope: (
                _walk(found.output, keys) if (found := scope.steps.get(step)) else None
            )


def _walk(value: Any, keys: tuple[Key, ...]) -> Any:
    for name, number in keys:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and number is not None and -len(value) <= number < len(value):
            value = value[number]
        else:
            return None
    return value


# ── mappings ──────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=COMPILED_MAX)
def compile_mapping(text: str) -> Compiled:
    """JSON whose texts may be paths, or a single path, or a text that is passed on as it is."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = text
    compiler = _Compiler()
    resolver, paths = compiler.compile(value), tuple(compiler.paths)
    whole = paths[0] if isinstance(value, str) and paths and _is_whole(paths[0]) else None
    seen = frozenset(compiler.seen)
    return Compiled(resolver, paths, tuple(compiler.errors), whole, seen)


def _is_whole(path: Path) -> bool:
    return path.root in (Root.INPUT, Root.OUTPUT) and not path.keys


class _Compiler:
    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.errors: list[PathError] = []
        self.seen: set[str] = set()
        self._expressions = 0
        self._has_default = False

    @property
    def _found(self) -> int:
        return len(self.paths) + len(self.errors) + self._expressions

    def compile(self, value: Any) -> Resolver:
        """A resolver for the value; what holds no path is the value itself, never copied."""
        before = self._found
        resolver = self._resolver(value)
        return resolver if self._found > before else lambda _: value

    def _resolver(self, value: Any) -> Resolver:
        match value:
            case str() if _is_path(value):
                return self._path(value)
            case str() if value.startswith(EXPRESSION_MARK):
                return self._expression(value)
            case {"from": str() as text, "default": default} if _is_path(text) and len(value) == 2:
                return self._with_default(text, default)
            case dict():
                fields = [(name, self.compile(inner)) for name, inner in value.items()]
                return lambda scope: {name: resolve(scope) for name, resolve in fields}
            case list():
                items = [self.compile(inner) for inner in value]
                return lambda scope: [resolve(scope) for resolve in items]
            case _:
                return lambda _: value

    def _path(self, text: str) -> Resolver:
        try:
            path = parse_path(text)
        except PathError as error:
            self.errors.append(error)
            return lambda _: None
        self.paths.append(path._replace(has_default=self._has_default))
        return path_resolver(path)

    def _expression(self, text: str) -> Resolver:
        self._expressions += 1
        try:
            found = compile_value(text)
        except ValueError as error:
            self.errors.append(PathError(str(error), text))
            return lambda _: None
        self.seen |= found.seen
        return found.resolve

    def _with_default(self, text: str, default: Any) -> Resolver:
        outer, self._has_default = self._has_default, True
        find, instead = self._path(text), self.compile(default)
        self._has_default = outer
        return lambda scope: instead(scope) if (found := find(scope)) is None else found


def _is_path(text: str) -> bool:
    return text.startswith(MARK)


# ── templates ─────────────────────────────────────────────────────────────────────────────────────

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@lru_cache(maxsize=COMPILED_MAX)
def compile_template(text: str) -> Compiled:
    """Text with places such as `{input.customer_id}`; `{{` and `}}` are braces."""
    pieces: list[str | Resolver] = []
    paths: list[Path] = []
    errors: list[PathError] = []
    at = 0
    for found in _PIECE.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        try:
            pieces.append(_piece(found, paths))
        except PathError as error:
            errors.append(error)
    pieces.append(text[at:])
    return Compiled(lambda scope: _filled(pieces, scope), tuple(paths), tuple(errors))


def _piece(found: re.Match[str], paths: list[Path]) -> str | Resolver:
    if found.group() in ("{{", "}}"):
        return found.group()[0]
    if found.group(1) is None:
        raise PathError(f"expected {{path}}, got a lonely {found.group()!r}")
    inner = found.group(1).strip()
    path = parse_path(inner if inner.startswith(MARK) else MARK + inner)
    paths.append(path)
    return path_resolver(path)


def _filled(pieces: list[str | Resolver], scope: Scope) -> str:
    return "".join(piece if isinstance(piece, str) else _as_text(piece(scope)) for piece in pieces)


def _as_text(value: Any) -> str:
    """Text as it is, anything else as JSON: what is not there is `null`."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
