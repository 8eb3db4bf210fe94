"""An operation is declared once: what is asked, what is answered, and how every door offers it.

    @operation(
        opcode=11,
        permission=Permission.ACTIONS_WRITE,
        http=Route("DELETE", "/actions/{name}", errors=(404,)),
    )
    class DeleteAction(Command[Nothing]):
        \"\"\"Delete an action; its live runs go on to their end, new ones are refused.\"\"\"

        name: ActionName
        namespace: Namespace = NAMESPACE_DEFAULT

The opcode table, the HTTP route, the flags of the command line, the reply type of the client, the
permission and the reference follow from this. All of them are listed in model/declare/catalog.py.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from inspect import cleandoc
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, get_args

from flo.model.base import Message
from flo.model.declare.route import Route

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M", bound=Message)


class Command(Message, Generic[R_co]):
    """Asks for a change; R_co is what the asker hears."""


class Query(Message, Generic[R_co]):
    """Asks what is, and changes nothing; R_co is the answer."""


class Permission(StrEnum):
    """What a caller must be allowed to do."""

    ACTIONS_READ = "actions:read"
    ACTIONS_WRITE = "actions:write"
    RUNS_READ = "runs:read"
    RUNS_INVOKE = "runs:invoke"
    RUNS_MANAGE = "runs:manage"
    TASKS_WORK = "tasks:work"
    WORKERS_READ = "workers:read"
    WORKERS_MANAGE = "workers:manage"
    NAMESPACES_READ = "namespaces:read"
    NAMESPACES_WRITE = "namespaces:write"
    STREAMS_READ = "streams:read"
    STREAMS_WRITE = "streams:write"
    STREAMS_MANAGE = "streams:manage"
    KV_READ = "kv:read"
    KV_WRITE = "kv:write"
    WORKFLOWS_READ = "workflows:read"
    WORKFLOWS_DEPLOY = "workflows:deploy"
    WORKFLOWS_START = "workflows:start"
    WORKFLOWS_SIGNAL = "workflows:signal"
    WORKFLOWS_MANAGE = "workflows:manage"
    SCHEDULES_READ = "schedules:read"
    SCHEDULES_MANAGE = "schedules:manage"
    EVENTS_EMIT = "events:emit"
    PIPELINES_READ = "pipelines:read"
    PIPELINES_SUBMIT = "pipelines:submit"
    PIPELINES_MANAGE = "pipelines:manage"
    SECRETS_READ = "secrets:read"
    SECRETS_WRITE = "secrets:write"
    AUDIT_READ = "audit:read"
    QUOTAS_WRITE = "quotas:write"


Repeatable: TypeAlias = bool | Callable[[Any], bool]
"""Always, never, or for those messages of which it says so."""


class Operation(NamedTuple):
    """All that the doors need to know of one command or query."""

    name: str
    message: type[Message]
    reply: type[Message]
    opcode: int
    permission: Permission
    batch_opcode: int | None = None
    """The opcode of its batch form: many of it in one frame, each answered on its own."""
    http: Route | None = None
    """The route that is derived from the declaration; None where a hand-written one serves it."""
    repeatable: Repeatable = False
    """Whether it has no second effect when it is heard twice. All others travel with a key."""
    cli: str | None = None
    """An example of the command that is derived from the declaration: `flo`, its group, its name.
    None where a hand-written command serves it."""

    @property
    def is_query(self) -> bool:
        return issubclass(self.message, Query)

    @property
    def waits(self) -> bool:
        """Whether it is a long poll: it says with `block_ms` how long it may wait."""
        return "block_ms" in self.message.__struct_fields__

    @property
    def help(self) -> str:
        return cleandoc(self.message.__doc__ or "")


def needs_key(message: Message) -> bool:
    """Whether a message that is heard twice has two effects, unless a key tells that it is one."""
    declared = DECLARED.get(type(message))
    repeatable = declared.repeatable if declared is not None else True
    return not (repeatable if isinstance(repeatable, bool) else repeatable(message))


DECLARED: dict[type[Message], Operation] = {}
"""Every operation, by its message; model/declare/catalog.py knows that all of them are here."""


def operation(
    *,
    opcode: int,
    permission: Permission,
    batch_opcode: int | None = None,
    http: Route | None = None,
    repeatable: Repeatable = False,
    cli: str | None = None,
) -> Callable[[type[M]], type[M]]:
    """Declare a command or a query as an operation that the doors offer."""

    def declare(message: type[M]) -> type[M]:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).lower()
        DECLARED[message] = Operation(
            name,
            message,
            _reply_of(message),
            opcode,
            permission,
            batch_opcode,
            http,
            repeatable or issubclass(message, Query),
            cli,
        )
        return message

    return declare


def _reply_of(message: type[Any]) -> type[Message]:
    for base in message.__orig_bases__:
        for argument in get_args(base):
            if isinstance(argument, type) and issubclass(argument, Message):
                return argument
    raise TypeError(f"{message.__name__} does not say what its reply is: Command[Reply]")
