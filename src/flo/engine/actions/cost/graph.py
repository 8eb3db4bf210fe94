"""A JSON Schema as a graph: its subschemas, and which of them each one applies to what.

{"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [{"items": {"$ref": "#/$defs/n"}}, …]}}}

#  ──same value──▸  #/$defs/n  ──same value──▸  #/$defs/n/oneOf/0  ──its elements──▸  …
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from flo.engine.actions.cost.patterns import PROPERTY_SIZE, pattern_size
from flo.engine.actions.cost.places import ELEMENT, MEMBER, NAME, Place
from flo.model.errors import TooLarge

Schema: TypeAlias = dict[str, Any]

PATTERN_SIZE_MAX = 100_000
"""All patterns of a schema together, with classes of Unicode as they are compiled."""
SUBSCHEMAS_MAX = 5_000

_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_TABLES = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

WEIGHTS = {"const": 75, "enum": 75, "uniqueItems": 75, "$ref": 10, "items": 10, "required": 10}
WEIGHTS |= dict.fromkeys(("properties", "patternProperties", "additionalProperties"), 10)
WEIGHTS |= dict.fromkeys((*_SAME_VALUE, *_SAME_VALUE_LISTS), 20)
WEIGHT = 5
"""Nanoseconds for each byte of a payload that a keyword takes, measured at its worst."""
ITEM_WEIGHT = 20
"""The same, for each array or object that a value is compared with."""
PATTERN_WEIGHT = 9
"""The same, for each character of a pattern."""


class SchemaEdge(NamedTuple):
    target: int
    place: Place | None
    """Which part of the value the target is for; None for the value itself."""


class Subschema(NamedTuple):
    pointer: str
    weight: int
    edges: list[SchemaEdge]


class SchemaGraph:
    """All subschemas that the first one, number 0, leads to."""

    def __init__(self, schema: Schema, what: str) -> None:
        self.subschemas: list[Subschema] = []
        self.unresolved: list[tuple[str, str]] = []
        """References that lead out of the schema, each after its place."""
        self._what = what
        self._numbers: dict[int, int] = {}
        self._waiting: list[tuple[Schema, str, str]] = []
        self._resources = _resources_of(schema)
        self._patterns_size = 0
        self._number_of(schema, "#", "")
        while self._waiting:
            self._look_at(*self._waiting.pop())

    def _number_of(self, schema: Schema, pointer: str, base: str) -> int:
        number = self._numbers.get(id(schema))
        if number is None:
            number = self._numbers[id(schema)] = len(self.subschemas)
            if number >= SUBSCHEMAS_MAX:
                raise TooLarge(
                    f"expected {self._what} of at most {SUBSCHEMAS_MAX} subschemas",
                    code="schema_too_costly",
                )
            self.subschemas.append(Subschema(pointer, self._weight_of(schema), []))
            self._waiting.append((schema, pointer, base))
        return number

    def _look_at(self, schema: Schema, pointer: str, base: str) -> None:
        base = _base_of(schema, base)
        edges = self.subschemas[self._numbers[id(schema)]].edges
        for keyword, place, inner in _applied(schema):
            edges.append(SchemaEdge(self._number_of(inner, f"{pointer}/{keyword}", base), place))
        for keyword in _REFERENCES:
            if isinstance(reference := schema.get(keyword), str):
                for found, where, its_base in self._referred(reference, base, keyword, pointer):
                    edges.append(SchemaEdge(self._number_of(found, where, its_base), None))

    def _weight_of(self, schema: Schema) -> int:
        weight = sum(WEIGHTS.get(keyword, WEIGHT) for keyword in schema)
        weight += ITEM_WEIGHT * sum(isinstance(one, dict | list) for one in _list(schema, "enum"))
        patterns = [*_table(schema, "patternProperties")]
        if isinstance(pattern := schema.get("pattern"), str):
            patterns.append(pattern)
        for pattern in patterns:
            weight += PATTERN_WEIGHT * pattern_size(pattern)
            self._patterns_size += pattern_size(pattern, PROPERTY_SIZE)
        if self._patterns_size > PATTERN_SIZE_MAX:
            raise TooLarge(
                f"expected patterns in {self._what} that take at most {PATTERN_SIZE_MAX} "
                "characters with their repetitions written out, got more",
                code="schema_too_costly",
            )
        return weight

    def _referred(
        self, reference: str, base: str, keyword: str, pointer: str
    ) -> Iterator[tuple[Schema, str, str]]:
        """Where a reference leads; one that is dynamic may lead to any anchor of that name."""
        uri, fragment = urldefrag(urljoin(base, reference))
        if keyword == "$dynamicRef" and fragment and not fragment.startswith("/"):
            for (_, anchor), found in self._resources.items():
                if anchor == fragment:
                    yield found
            return
        if (anchored := self._resources.get((uri, fragment))) is not None:
            yield anchored
            return
        schema, where, its_base = self._resources.get((uri, ""), (None, "", ""))
        path = unquote(fragment)
        found = _look_up(schema, path)
        if isinstance(found, dict):
            yield found, where + path, its_base
        elif not isinstance(found, bool):
            self.unresolved.append((f"{pointer}/{keyword}", reference))


def _applied(schema: Schema) -> Iterator[tuple[str, Place | None, Schema]]:
    """The subschemas of one, where each stands and what it is for."""
    for find in (_of_the_value, _of_members, _of_elements):
        for keyword, place, inner in find(schema):
            if isinstance(inner, dict):
                yield keyword, place, inner


def _of_the_value(schema: Schema) -> Iterator[tuple[str, Place | None, Any]]:
    for keyword in _SAME_VALUE:
        yield keyword, None, schema.get(keyword)
    for keyword in _SAME_VALUE_LISTS:
        for number, inner in enumerate(_list(schema, keyword)):
            yield f"{keyword}/{number}", None, inner
    for keyword in _SAME_VALUE_TABLES:
        for name, inner in _table(schema, keyword).items():
            yield f"{keyword}/{_escaped(name)}", None, inner


def _of_members(schema: Schema) -> Iterator[tuple[str, Place | None, Any]]:
    names, patterns = _table(schema, "properties"), _table(schema, "patternProperties")
    for name, inner in names.items():
        yield f"properties/{_escaped(name)}", Place(MEMBER, name=name), inner
    for pattern, inner in patterns.items():
        place = Place(MEMBER, pattern=pattern)
        yield f"patternProperties/{_escaped(pattern)}", place, inner
    others = Place(MEMBER, not_names=frozenset(names), not_patterns=tuple(patterns))
    yield "additionalProperties", others, schema.get("additionalProperties")
    yield "unevaluatedProperties", others, schema.get("unevaluatedProperties")
    yield "propertyNames", Place(NAME), schema.get("propertyNames")


def _of_elements(schema: Schema) -> Iterator[tuple[str, Place | None, Any]]:
    keyword = "prefixItems" if "prefixItems" in schema else "items"
    first = _list(schema, keyword)
    for number, inner in enumerate(first):
        yield f"{keyword}/{number}", Place(ELEMENT, first=number, last=number), inner
    for other in ("items", "additionalItems", "unevaluatedItems"):
        yield other, Place(ELEMENT, first=len(first)), schema.get(other)
    yield "contains", Place(ELEMENT), schema.get("contains")


def _resources_of(root: Schema) -> dict[tuple[str, str], tuple[Schema, str, str]]:
    """What can be referred to by a name: by the URI of a resource and an anchor in it."""
    found: dict[tuple[str, str], tuple[Schema, str, str]] = {("", ""): (root, "#", "")}
    waiting: list[tuple[Any, str, str]] = [(root, "#", "")]
    while waiting:
        value, pointer, base = waiting.pop()
        if isinstance(value, list):
            waiting += [(one, f"{pointer}/{number}", base) for number, one in enumerate(value)]
        if not isinstance(value, dict):
            continue
        base = _base_of(value, base)
        for keyword in ("$id", "$anchor", "$dynamicAnchor"):
            if isinstance(name := value.get(keyword), str):
                anchor = urldefrag(name)[1] if keyword == "$id" else name
                found[base, anchor] = (value, pointer, base)
        waiting += [(one, f"{pointer}/{_escaped(name)}", base) for name, one in value.items()]
    return found


def _base_of(schema: Schema, base: str) -> str:
    own = schema.get("$id")
    return urldefrag(urljoin(base, own))[0] if isinstance(own, str) else base


def _look_up(value: Any, path: str) -> Any:
    """What a JSON pointer leads to."""
    for step in path.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _kind(kind: type, empty: Callable[[], Any]) -> Callable[[Schema, str], Any]:
    def find(schema: Schema, keyword: str) -> Any:
        value = schema.get(keyword)
        return value if isinstance(value, kind) else empty()

    return find


_list = _kind(list, list)
_table = _kind(dict, dict)
