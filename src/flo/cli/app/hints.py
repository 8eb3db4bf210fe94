"""What to do about an error, with the names that were typed.

    Error: action 'charge' is not registered [action_not_found]
    Looked in namespace 'default'; it is in 'prod': add --namespace prod
    Register it with: flo action register charge

A word in capitals in a hint stands for a field of the operation that was refused.
"""

import re
import shlex
from typing import TYPE_CHECKING, Any

import click

from flo.cli.app.errors import HINTS
from flo.cli.app.options import GlobalSettings
from flo.model.base import Message
from flo.model.errors import FloError, NotFound
from flo.model.ids import NAMESPACE_DEFAULT, Namespace, parse_run_id

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

NAMESPACES_LOOKED_INTO_MAX = 50
WORDS = {
    "NAME": ("action", "workflow", "name"),
    "RUN": ("run_id",),
    "STREAM": ("stream",),
    "GROUP": ("group",),
    "CONSUMER": ("consumer",),
    "KEY": ("key",),
}
_WORD = re.compile(r"\b[A-Z]{3,}\b")


def add_hints(settings: GlobalSettings, message: Message, error: FloError) -> None:
    """Note what would help, in the words of what was asked for."""
    hint = _hint_of(error.code)
    if hint is not None:
        words = words_of(message)
        error.add_note(_WORD.sub(lambda found: words.get(found[0], found[0]), hint))
    if isinstance(error, NotFound) and (where := _elsewhere(settings, message, error.code)):
        error.add_note(where)


def words_of(message: Message) -> dict[str, str]:
    """What the words in capitals stand for."""
    words = {}
    for word, fields in WORDS.items():
        values = (getattr(message, field, None) for field in fields)
        value = next((one for one in values if isinstance(one, str) and one), None)
        if value is not None:
            words[word] = shlex.quote(value)
    address = parse_run_id(getattr(message, "run_id", None) or "")
    if address is not None:
        words.setdefault("NAME", shlex.quote(address[0]))
    return words


def _hint_of(code: str) -> str | None:
    """That of the group of the command, or the general one."""
    context = click.get_current_context(silent=True)
    while context is not None:
        hints: dict[str, str] = getattr(context.command, "hints", {})
        if code in hints:
            return hints[code]
        context = context.parent
    return HINTS.get(code)


def _elsewhere(settings: GlobalSettings, message: Message, code: str) -> str | None:
    """In which namespace was looked, and in which others the same name is."""
    query = _query_for(message, code)
    if query is None:
        return None
    with settings.connect() as flo:
        mine = flo.namespace
        where = [one for one in _namespaces(flo) if one != mine and _is_there(flo, query, one)]
    if where:
        return (
            f"Looked in namespace {mine!r}; it is in {', '.join(map(repr, where))}: "
            f"add --namespace {shlex.quote(where[0])}"
        )
    return f"Looked in namespace {mine!r}." if mine != NAMESPACE_DEFAULT else None


def _query_for(message: Message, code: str) -> Any:
    """What would find the same thing in another namespace; None if it is not looked for."""
    from flo.model.actions import GetAction
    from flo.model.runs import GetRun
    from flo.model.workflows import GetWorkflow, GetWorkflowRun

    fields = ("run_id",) if code == "run_not_found" else WORDS["NAME"]
    values = (getattr(message, field, None) for field in fields)
    named = next((one for one in values if isinstance(one, str)), None)
    if named is None:
        return None
    match code:
        case "action_not_found":
            return GetAction(name=named)
        case "workflow_not_found":
            return GetWorkflow(name=named)
        case "run_not_found" if "Workflow" in type(message).__name__:
            return GetWorkflowRun(run_id=named)
        case "run_not_found":
            return GetRun(run_id=named)
        case _:
            return None


def _namespaces(flo: "BlockingFlo") -> list[Namespace]:
    try:
        page = flo.namespaces.list(limit=NAMESPACES_LOOKED_INTO_MAX)
    except FloError:
        return []  # it may not see them
    return [one.name for one in page.items]


def _is_there(flo: "BlockingFlo", query: Any, namespace: Namespace) -> bool:
    try:
        flo.call(query, namespace=namespace)
    except FloError:
        return False
    return True
