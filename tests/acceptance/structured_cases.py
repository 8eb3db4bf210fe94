"""Requests of the right shape with unusual values, made up from the declared operations.

    Cases(seed).message(form)       a body for the RPC protocol, as a dictionary
    Cases(seed).http(document)      method, path and JSON body, from the OpenAPI document
    Cases(seed).definition()        a workflow of the language's own words, in odd places
    Cases(seed).schema()            a JSON Schema that refers to itself, nests and multiplies

Names are drawn from a small set, so that most requests are about something that exists. The same
seed makes the same cases.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec
import yaml
from msgspec import inspect

from flo.wire.opcodes import Form

EXAMPLES = Path(__file__).parents[2] / "examples"
DEPTH_MAX = 3
MILLISECONDS_MAX = 20
"""The longest that a case asks the server to wait."""
ABSENT = 0.3
"""How often a field that has a default is left out."""

NAMES = ["alpha", "beta", "gamma"]
TEXTS = ["", " ", "alpha", "größe", "a/b", "..", "--help", "\x00", "\x1b[31m", "x" * 300, "💥" * 20]
NUMBERS = [-(2**63), -1, 0, 1, 2, 7, 255, 256, 1_000, 86_400_000, 2**31, 2**53, 2**63 - 1]
FLOATS = [0.0, -1.5, 1e300, 1e-300, 0.1]
PAYLOADS = [b"", b"{}", b"null", b"[1,2]", b'{"alpha":{"beta":[]}}', b"\xff\xfe", b"x" * 70_000]
WAITS = {"block_ms", "wait_ms"}
ALWAYS_GIVEN = {*WAITS, "namespace"}
"""By default a call waits for long, and what it makes cannot be deleted with its namespace."""
GRAPHS: list[Any] = [
    {"nodes": [{"node_id": "u", "type": "alpha", "retry_policy": {"backoff_sec": 0}}]},
    {
        "nodes": [
            {"node_id": "u", "type": "alpha", "routing": {"on_failure": ["w"]}},
            {
                "node_id": "v",
                "type": "beta",
                "io": {
                    "start_when": "first_batch",
                    "input_inline": {"input_args": {"from_nodes": ["u"]}},
                },
            },
            {"node_id": "w", "type": "coordinator_fn", "depends_on": ["u"]},
        ]
    },
]
KNOWN: dict[str, list[Any]] = {
    "namespace": ["alpha", "alpha", "alpha", "beta", "default", "nowhere", "", "a b"],
    "run_id": ["alpha-1", "alpha-2", "wfrun-1", "wfrun-2", "wfrun-9999", "-", ""],
    "id": ["pipe-1", "pipe-2", "pipe-3", "0-0", "1-0", "$", "9" * 40, ""],
    "graph": [*GRAPHS, *GRAPHS, {}, {"nodes": 7}, {"nodes": [{}]}],
    "node": ["u", "u", "v", "w", "", None],
    "roles": [["alpha"], ["alpha", "beta", "coordinator_fn"], []],
    "from_nodes": [["u"], ["u", "v"], ["x"], []],
    "epoch": [0, 1, 1, 1, 2],
    "attempt_epoch": [0, 1, 1, 2],
    "batch_uid": ["b0", "b1", "b2", ""],
    "meta": [b"{}", b'{"count": 1, "items": [1, 2]}', b"[]", b"{"],
    "function": ["vars.set", "vars.merge", "vars.incr", "vars.unset", "merge.generic", "none"],
    "after": ["0-0", "1-0", "$", "", 0, 7],
    "path": ["$", "$.a", "$.a[0]", "$..a", "$[", "$.alpha.beta", ""],
    "cursor": ["", "0", "alpha", "x" * 200, "MQ=="],
    "where": ["amount > 1", "customer = 'x'", "a = 1 AND b = 2", "((((", "a" * 200, ""],
    "processes": [["alpha"], ["alpha", "beta"], [], ["--help"]],
    "wasm_module": [None, b"", b"\x00asm\x01\x00\x00\x00", b"\x00asm\xff"],
}
WORDS = [
    "kind",
    "name",
    "version",
    "start",
    "steps",
    "run",
    "transitions",
    "retry",
    "plan",
    "executors",
    "input",
    "output",
    "when",
    "rollback",
    "waitForSignal",
    "type",
    "timeoutMs",
    "poll",
    "forEach",
    "items",
    "parallel",
    "branches",
    "join",
    "sleep",
    "child",
    "workflow",
    "schedule",
    "cron",
    "trigger",
    "stream",
    "group",
    "idempotency",
    "default",
    "success",
    "failure",
    "timeout",
    "flo.Completed",
    "flo.Failed",
    "max_attempts",
    "backoff",
    "strategy",
    "errors",
    "retryable",
    "fatal",
    "breaker",
    "cache",
    "ttl_ms",
]
SCHEMA_TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]


class Cases:
    """Draws everything from one source of chance."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._examples = [
            yaml.safe_load(path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))
        ]

    def message(self, form: Form) -> Any:
        """The body of a request of this form."""
        kind = inspect.type_info(form.request)
        if form.many:
            return [self._value(kind, form.name) for _ in range(self._rng.randint(0, 4))]
        return self._value(kind, form.name)

    def http(self, document: dict[str, Any]) -> tuple[str, str, bytes]:
        path, methods = self._rng.choice(sorted(document["paths"].items()))
        method, operation = self._rng.choice(sorted(methods.items()))
        query = []
        for parameter in operation.get("parameters", ()):
            name = parameter["name"]
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", quote(str(self._named(name)), safe=""))
            elif parameter["in"] == "query" and self._is_given(name, 0):
                drawn = self._from_schema(parameter["schema"], document, name)
                query.append(f"{quote(name)}={quote(str(drawn))}")
        body = b""
        for content in operation.get("requestBody", {}).get("content", {}).values():
            body = _json(self._from_schema(content.get("schema", {}), document, "body"))
        return method.upper(), path + ("?" + "&".join(query) if query else ""), body

    def definition(self) -> str:
        """A shipped example with a few places changed, or a tree of the language's words."""
        if self._rng.random() < 0.3:
            return yaml.safe_dump({"kind": "Workflow", "name": "alpha", "start": self._tree(0)})
        document = json.loads(json.dumps(self._rng.choice(self._examples)))
        document["name"] = self._rng.choice(NAMES)
        for _ in range(self._rng.randint(1, 5)):
            self._change(document)
        return yaml.safe_dump(document)

    def schema(self, depth: int = 0) -> Any:
        if depth > 5 or self._rng.random() < 0.1:
            return self._rng.choice([{}, True, False, {"$ref": "#"}, {"$ref": "#/$defs/alpha"}])
        made: dict[str, Any] = {}
        for word in self._rng.sample(sorted(SCHEMA_WORDS), self._rng.randint(1, 3)):
            made[word] = SCHEMA_WORDS[word](self, depth + 1)
        if depth == 0:
            made["$defs"] = {name: self.schema(2) for name in NAMES[:2]}
        return made

    def schemas(self, depth: int) -> list[Any]:
        return [self.schema(depth) for _ in range(self._rng.randint(1, 3))]

    def schemas_by_name(self, depth: int) -> dict[str, Any]:
        return {name: self.schema(depth) for name in self._rng.sample(NAMES, 2)}

    def json_value(self, depth: int = 0) -> Any:
        choice = self._rng.randrange(3 if depth > 4 else 5)
        if choice == 3:
            return [self.json_value(depth + 1) for _ in range(self._rng.randint(0, 3))]
        if choice == 4:
            names = self._rng.sample(NAMES, self._rng.randint(0, 3))
            return {name: self.json_value(depth + 1) for name in names}
        return self._rng.choice([None, True, "alpha", "", 0, -1, 1.5, 2**53])

    def choice(self, values: list[Any]) -> Any:
        return self._rng.choice(values)

    def _value(self, kind: inspect.Type, name: str, depth: int = 0) -> Any:
        known = self._known(name)
        if known is not None and (name in WAITS or self._rng.random() < 0.7):
            return known
        match kind:
            case inspect.Metadata(inner):
                return self._value(inner, name, depth)
            case inspect.StructType():
                return self._struct(kind, depth)
            case inspect.UnionType(members):
                return self._value(self._rng.choice(members), name, depth)
            case inspect.ListType(item) | inspect.VarTupleType(item):
                return [self._value(item, name, depth) for _ in range(self._rng.randint(0, 3))]
            case inspect.DictType(_, value):
                return {
                    self._rng.choice(TEXTS): self._value(value, name, depth)
                    for _ in range(self._rng.randint(0, 3))
                }
            case inspect.EnumType(cls):
                return self._rng.choice([*(one.value for one in cls), "nothing"])
            case inspect.LiteralType(values):
                return self._rng.choice(values)
        return self._plain(kind)

    def _struct(self, kind: inspect.StructType, depth: int) -> dict[str, Any]:
        made = {}
        for field in kind.fields:
            if field.required or self._is_given(field.name, depth):
                made[field.encode_name] = self._value(field.type, field.name, depth + 1)
        if kind.tag_field is not None:
            made[kind.tag_field] = kind.tag
        return made

    def _is_given(self, name: str, depth: int) -> bool:
        """Whether a field that may be left out is there."""
        return name in ALWAYS_GIVEN or (depth <= DEPTH_MAX and self._rng.random() > ABSENT)

    def _plain(self, kind: inspect.Type) -> Any:
        match kind:
            case inspect.IntType():
                return self._rng.choice(NUMBERS)
            case inspect.FloatType():
                return self._rng.choice(FLOATS)
            case inspect.BoolType():
                return self._rng.random() < 0.5
            case inspect.StrType():
                return self._rng.choice([*NAMES, *NAMES, *NAMES, *TEXTS])
            case inspect.BytesType():
                return self._rng.choice(PAYLOADS)
            case inspect.NoneType():
                return None
        return self.json_value()

    def _known(self, name: str) -> Any:
        if name in WAITS:
            return self._rng.randint(0, MILLISECONDS_MAX)
        if name == "text":
            return self.definition()
        if name in ("input_schema", "output_schema"):
            return self.schema()
        singular = name.removesuffix("s")
        if name in KNOWN:
            return self._rng.choice(KNOWN[name])
        return [self._rng.choice(KNOWN[singular])] if singular in KNOWN else None

    def _named(self, name: str) -> Any:
        """What stands in a path under this name."""
        known = self._known(name)
        return self._rng.choice([*NAMES, *NAMES, *TEXTS]) if known is None else known

    def _from_schema(self, schema: Any, document: dict[str, Any], name: str, depth: int = 0) -> Any:
        known = self._known(name)
        if known is not None and (name in WAITS or self._rng.random() < 0.7):
            return known if not isinstance(known, bytes) else "AA=="
        if not isinstance(schema, dict):  # anything will do
            return self.json_value()
        if "$ref" in schema:
            found = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            return self._from_schema(found, document, name, depth)
        if several := schema.get("anyOf") or schema.get("oneOf"):
            return self._from_schema(self._rng.choice(several), document, name, depth)
        if "enum" in schema:
            return self._rng.choice([*schema["enum"], "nothing"])
        return self._from_type(schema, document, name, depth)

    def _from_type(self, schema: Any, document: dict[str, Any], name: str, depth: int) -> Any:
        match schema.get("type"):
            case "object" if "properties" in schema:
                required = schema.get("required", ())
                return {
                    key: self._from_schema(value, document, key, depth + 1)
                    for key, value in schema["properties"].items()
                    if key in required or self._is_given(key, depth)
                }
            case "array":
                count = self._rng.randint(0, 3)
                items = schema.get("items", {})
                return [self._from_schema(items, document, name, depth) for _ in range(count)]
            case "integer":
                return self._rng.choice(NUMBERS)
            case "number":
                return self._rng.choice(FLOATS)
            case "boolean":
                return self._rng.random() < 0.5
            case "string":
                return self._rng.choice([*NAMES, *NAMES, *TEXTS])
        return self.json_value()

    def _tree(self, depth: int) -> Any:
        if depth > 5 or self._rng.random() < 0.2:
            return self._rng.choice([*WORDS, *NAMES, "$.input.a", "$.steps.alpha.b", 0, -1, None])
        if self._rng.random() < 0.2:
            return [self._tree(depth + 1) for _ in range(self._rng.randint(0, 3))]
        words = self._rng.sample(WORDS, self._rng.randint(1, 4))
        return {word: self._tree(depth + 1) for word in words}

    def _change(self, tree: Any) -> None:
        """Change, remove or add one thing somewhere in a tree."""
        while isinstance(tree, dict | list) and tree:
            places = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
            place = self._rng.choice(places)
            if isinstance(tree[place], dict | list) and self._rng.random() < 0.7:
                tree = tree[place]
                continue
            match self._rng.randrange(3):
                case 0:
                    tree[place] = self._tree(3)
                case 1:
                    del tree[place]
                case 2 if isinstance(tree, dict):
                    tree[self._rng.choice(WORDS)] = self._tree(3)
            return


SCHEMA_WORDS: dict[str, Callable[[Cases, int], Any]] = {
    "type": lambda cases, depth: cases.choice([*SCHEMA_TYPES, "nothing", ["string", "null"]]),
    "properties": Cases.schemas_by_name,
    "patternProperties": lambda cases, depth: {"^(a+)+$": cases.schema(depth)},
    "additionalProperties": Cases.schema,
    "items": Cases.schema,
    "prefixItems": Cases.schemas,
    "contains": Cases.schema,
    "oneOf": Cases.schemas,
    "anyOf": Cases.schemas,
    "allOf": Cases.schemas,
    "not": Cases.schema,
    "if": Cases.schema,
    "then": Cases.schema,
    "dependentSchemas": Cases.schemas_by_name,
    "enum": lambda cases, depth: [cases.json_value(3), "alpha"],
    "const": lambda cases, depth: cases.json_value(3),
    "pattern": lambda cases, depth: cases.choice(["^a+$", "(a+)+$", "(", "(x+x+)+y", "a{1000}"]),
    "format": lambda cases, depth: cases.choice(["email", "uri", "nothing"]),
    "minimum": lambda cases, depth: cases.choice(NUMBERS),
    "multipleOf": lambda cases, depth: cases.choice([0, 1, 0.1, -1]),
    "maxLength": lambda cases, depth: cases.choice(NUMBERS),
    "required": lambda cases, depth: cases.choice([["alpha"], [], "alpha"]),
    "uniqueItems": lambda cases, depth: True,
    "$ref": lambda cases, depth: cases.choice(["#", "#/$defs/alpha", "#/$defs/beta", "http://x/"]),
}


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except msgspec.MsgspecError:  # such as an integer beyond 64 bits
        return json.dumps(value).encode()
