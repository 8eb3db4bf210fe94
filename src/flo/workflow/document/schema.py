"""The JSON Schema of documents, and their reference in Markdown.

Both are derived from the fields of the definition, as the reader is.
"""

from inspect import cleandoc
from typing import Any, Final

import msgspec

from flo.model.base import Record
from flo.workflow.definition import (
    START,
    START_ALIAS,
    Concurrency,
    Definition,
    Schedule,
    SearchAttribute,
    Terminal,
    TerminalKind,
    Trigger,
)
from flo.workflow.document.fields import (
    EXACTLY_ONE,
    STEP_KINDS,
    TARGETS,
    WRITTEN_TARGETS,
    Field,
    fields_of,
)
from flo.workflow.document.parse import KIND
from flo.workflow.document.problem import CODES
from flo.workflow.plan.plan import (
    Breaker,
    Cache,
    ErrorClasses,
    Executor,
    Fallback,
    Health,
    Plan,
    RateLimit,
    Tracking,
)
from flo.workflow.retry import Poll, Retry
from flo.workflow.steps import (
    BRANCHES_MAX,
    TRANSITIONS_MAX,
    ForEach,
    ForEachStep,
    Parallel,
    ParallelStep,
    Rollback,
    RunStep,
    SignalStep,
    SignalWait,
    Sleep,
    SleepStep,
    TargetKind,
)

SCHEMA_ID: Final = "https://json-schema.org/draft/2020-12/schema"
_DURATION_PATTERN: Final = r"^([0-9]{1,12}(ms|s|m|h|d)){1,5}$"
_STEP_NAMES: Final = {"pattern": r"^[\w-]+$", "not": {"enum": [START, START_ALIAS]}}
_TARGET_PATTERNS: Final = {
    TargetKind.ACTION: r"actions/[\w.:@-]+",
    TargetKind.PLAN: r"plan/[\w.-]+",
    TargetKind.PIPELINE: r"pipelines/[\w.:@-]+",
    TargetKind.BLOCK: r"blocks/[\w.-]+/[\w.-]+:[0-9]+(\.[0-9]+){0,2}",
    TargetKind.WORKFLOW: r"workflow/[\w.@-]+(:[^\s:]+)?",
}
_BRANCH_STEPS: Final = ("run", "waitForSignal", "sleep", "forEach")
_SHORT_FORMS: Final[dict[type[Record], dict[str, Any]]] = {
    Concurrency: {"type": "integer", "minimum": 1},
    Terminal: {"enum": [ending.value for ending in TerminalKind]},
    Sleep: {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": rf"{_DURATION_PATTERN}|^\$\."},
        ]
    },
}


# ── JSON Schema ───────────────────────────────────────────────────────────────────────────────────


def json_schema() -> dict[str, Any]:
    """What an editor needs to complete and check a document while it is written."""
    definitions: dict[str, Any] = {}
    document = _object(Definition, definitions)
    document["properties"] = {"kind": {"const": KIND}, **document["properties"]}
    document["required"] = ["kind", *document["required"]]
    return {
        "$schema": SCHEMA_ID,
        "title": "Flo workflow",
        **document,
        "$defs": dict(sorted(definitions.items())),
    }


def _object(struct: type[Record], definitions: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(struct)
    return {
        "type": "object",
        "description": _first_sentence(struct),
        "properties": {
            key: _property(struct, field, definitions) for field in fields for key in field.keys
        },
        "additionalProperties": False,
        "required": [field.key for field in fields if field.required and len(field.keys) == 1],
        **_combinations(struct, fields),
    }


def _combinations(struct: type[Record], fields: tuple[Field, ...]) -> dict[str, Any]:
    """Which spellings are required, and which fields exclude each other."""
    twins: list[dict[str, Any]] = [
        {"oneOf": [{"required": [key]} for key in field.keys]}
        for field in fields
        if field.required and len(field.keys) > 1
    ]
    exclusive = [
        key for field in fields if field.name in EXACTLY_ONE.get(struct, ()) for key in field.keys
    ]
    if exclusive:
        twins.append({"oneOf": [{"required": [key]} for key in exclusive]})
    return {"allOf": twins} if twins else {}


def _property(struct: type[Record], field: Field, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _schema_of(struct, field, definitions)
    if field.description:
        schema["description"] = field.description
    if not field.required and isinstance(field.default, str | int | float | bool):
        schema["default"] = _shown_default(field)
    return schema


def _schema_of(struct: type[Record], field: Field, definitions: dict[str, Any]) -> dict[str, Any]:
    kind = field.kind
    match kind.word:
        case "struct":
            return _reference(kind.type, definitions)
        case "structs":
            least = {"minItems": 1} if kind.type is Executor else {}
            return {"type": "array", "items": _reference(kind.type, definitions), **least}
        case "table":
            return {"type": "object", "additionalProperties": _reference(kind.type, definitions)}
        case "target":
            return _target(TARGETS.get(struct, WRITTEN_TARGETS))
        case "step":
            return _step_reference(definitions)
        case "steps":
            return _steps(_step_reference(definitions))
        case "branches":
            return _branches(definitions)
        case "choice":
            return {"enum": [one.value for one in kind.type]}
        case _:
            return _simple(field)


def _simple(field: Field) -> dict[str, Any]:
    whole = {"type": "integer", **_bounds(field)}
    schemas: dict[str, dict[str, Any]] = {
        "text": {
            "type": ["string", "number"] if field.name == "version" else "string",
            **_lengths(field),
        },
        "integer": whole,
        "number": {"type": "number", **_bounds(field)},
        "boolean": {"type": "boolean"},
        "duration": {"anyOf": [whole, {"type": "string", "pattern": _DURATION_PATTERN}]},
        "json": {},
        "path": {"type": "string"},
        "template": {"type": "string", "minLength": 1},
        "join": {"anyOf": [{"enum": ["all", "any"]}, {"type": "integer", "minimum": 1}]},
        "goal": {"type": "string", "minLength": 1},
        "transitions": {
            "type": "object",
            "maxProperties": TRANSITIONS_MAX,
            "additionalProperties": {"type": "string", "minLength": 1},
        },
        "texts": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    }
    return schemas[field.kind.word]


def _target(kinds: tuple[TargetKind, ...]) -> dict[str, Any]:
    patterns = "|".join(_TARGET_PATTERNS[kind] for kind in kinds)
    return {"type": "string", "pattern": f"^@({patterns})$"}


def _lengths(field: Field) -> dict[str, int]:
    bounds = {"minLength": field.kind.least, "maxLength": field.kind.most}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _bounds(field: Field) -> dict[str, int]:
    bounds = {
        "minimum": field.kind.least,
        "maximum": field.kind.most,
        "exclusiveMinimum": field.kind.over,
    }
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _reference(struct: type[Record], definitions: dict[str, Any]) -> dict[str, Any]:
    name = struct.__name__
    if name not in definitions:
        definitions[name] = {}  # it is under way
        schema = _object(struct, definitions)
        short = _target(TARGETS[struct]) if struct is Rollback else _SHORT_FORMS.get(struct)
        definitions[name] = {"anyOf": [short, schema]} if short else schema
    return {"$ref": f"#/$defs/{name}"}


def _step_reference(definitions: dict[str, Any]) -> dict[str, Any]:
    if "Step" not in definitions:
        definitions["Step"] = {}
        definitions["Step"] = {
            "anyOf": [_reference(struct, definitions) for struct in STEP_KINDS.values()]
        }
    return {"$ref": "#/$defs/Step"}


def _flat_step_reference(definitions: dict[str, Any]) -> dict[str, Any]:
    structs = [STEP_KINDS[key] for key in _BRANCH_STEPS]
    definitions["FlatStep"] = {"anyOf": [_reference(struct, definitions) for struct in structs]}
    return {"$ref": "#/$defs/FlatStep"}


def _steps(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": _STEP_NAMES,
        "additionalProperties": step,
    }


def _branches(definitions: dict[str, Any]) -> dict[str, Any]:
    step = _flat_step_reference(definitions)
    graph = {
        "type": "object",
        "properties": {"start": step, "steps": _steps(step)},
        "required": ["start"],
        "additionalProperties": False,
    }
    branch = {"anyOf": [_target(WRITTEN_TARGETS), graph, step]}
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": BRANCHES_MAX,
        "propertyNames": _STEP_NAMES,
        "additionalProperties": branch,
    }


# ── reference ─────────────────────────────────────────────────────────────────────────────────────

_SECTIONS: Final[tuple[tuple[str, type[Record]], ...]] = (
    ("The document", Definition),
    ("Step: `run`", RunStep),
    ("Step: `waitForSignal`", SignalStep),
    ("`waitForSignal`", SignalWait),
    ("Step: `sleep`", SleepStep),
    ("`sleep`", Sleep),
    ("Step: `parallel`", ParallelStep),
    ("`parallel`", Parallel),
    ("Step: `forEach`", ForEachStep),
    ("`forEach`", ForEach),
    ("`retry`", Retry),
    ("`poll`", Poll),
    ("`rollback`", Rollback),
    ("`terminals.NAME`", Terminal),
    ("`plans.NAME`", Plan),
    ("`executors[]`", Executor),
    ("`breaker`", Breaker),
    ("`rate_limit`", RateLimit),
    ("`tracking`", Tracking),
    ("`health`", Health),
    ("`cache`", Cache),
    ("`fallback`", Fallback),
    ("`errors`", ErrorClasses),
    ("`schedule`", Schedule),
    ("`trigger`", Trigger),
    ("`concurrency`", Concurrency),
    ("`searchAttributes[]`", SearchAttribute),
)

_TYPES: Final = {
    "text": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "boolean",
    "duration": "milliseconds or duration",
    "json": "JSON, as text or YAML",
    "path": "path",
    "template": "template",
    "join": "`all`, `any` or a number",
    "target": "target",
    "goal": "step or terminal",
    "transitions": "mapping",
    "texts": "list of texts",
    "struct": "block",
    "structs": "list of blocks",
    "table": "mapping",
    "step": "step",
    "steps": "mapping",
    "branches": "mapping",
}


_VALUES: Final = """\
### Values

| type | looks like |
|---|---|
| target | `@actions/name`, `@plan/name`, `@pipelines/name`, `@workflow/name`, \
`@workflow/name:version` |
| step or terminal | the name of a step, `start`, the name of a terminal, `flo.Completed`, \
`flo.Failed`, `flo.Cancelled`, `flo.TimedOut` |
| milliseconds or duration | `1500`, `250ms`, `30s`, `5m`, `1h30m`, `7d` |
| path | `$.input`, `$.input.items[0].sku`, `$.steps.NAME.output`, `$.steps.NAME.outcome`, \
`$.steps.NAME.error`, `$.steps.NAME.error_code`, \
`$.flo.run_id`, `$.flo.timestamp`; in `forEach` also `$.item` and `$.index` |
| template | `charge:{input.customer_id}`; `{{` and `}}` are braces |
| JSON, as text or YAML | `'{"amount": "$.input.amount"}'` or `{amount: $.input.amount}`; \
texts that begin with `$.` are paths; `{from: $.steps.NAME.output.id, default: none}` says what \
stands there if nothing is found, or null |"""


def reference() -> str:
    """Every block of the document as a Markdown table, and every code of the validator."""
    parts = [*(_section(title, struct) for title, struct in _SECTIONS), _VALUES]
    codes = ["### Codes", "", "| code | meaning |", "|---|---|"]
    codes += [f"| {code} | {meaning} |" for code, meaning in CODES.items()]
    return "\n\n".join([*parts, "\n".join(codes)]) + "\n"


def _section(title: str, struct: type[Record]) -> str:
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    if struct is Definition:
        rows.append("| `kind` | text | required | Always `Workflow`. |")
    rows += [_row(field) for field in fields_of(struct)]
    return "\n".join([f"### {title}", "", _text_of(struct), "", *rows])


def _row(field: Field) -> str:
    names = ", ".join(f"`{key}`" for key in field.keys)
    kind = _TYPES.get(field.kind.word) or " · ".join(f"`{one.value}`" for one in field.kind.type)
    default = "required" if field.required else _default_cell(field)
    return f"| {names} | {kind} | {default} | {field.description.replace('|', chr(92) + '|')} |"


def _default_cell(field: Field) -> str:
    shown = _shown_default(field)
    return "" if shown in (None, "", (), {}) or isinstance(shown, Record) else f"`{_json(shown)}`"


def _shown_default(field: Field) -> Any:
    if field.kind.word == "join":
        return "all"
    return getattr(field.default, "value", field.default)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text_of(struct: type[Record]) -> str:
    return cleandoc(struct.__doc__ or "")


def _first_sentence(struct: type[Record]) -> str:
    return _text_of(struct).partition("\n\n")[0].replace("\n", " ")
