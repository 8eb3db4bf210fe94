"""The one table of roles: which permissions each has. Custom roles are added by flo.toml.

[roles.deployer]
permissions = ["workflows:deploy", "actions:write", "*:read"]
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from flo.model.declare.operation import Permission
from flo.model.errors import Invalid

P = Permission


class Role(msgspec.Struct, frozen=True):
    permissions: frozenset[Permission]
    own: frozenset[Permission] = frozenset()
    """Permissions for that alone which its holder has begun."""
    help: str = ""


OF_ADMINISTRATORS = frozenset({P.ACCESS_READ, P.ACCESS_MANAGE})
READS = frozenset(one for one in P if one.value.endswith(":read")) - OF_ADMINISTRATORS
RUNS = frozenset({P.RUNS_INVOKE, P.WORKFLOWS_START, P.PIPELINES_SUBMIT})

ROLES: dict[str, Role] = {
    "admin": Role(frozenset(P), help="everything, tokens included"),
    "developer": Role(
        READS
        | RUNS
        | {
            P.ACTIONS_WRITE,
            P.WORKFLOWS_DEPLOY,
            P.WORKFLOWS_SIGNAL,
            P.PIPELINES_DEPLOY,
            P.STREAMS_WRITE,
            P.STREAMS_CONSUME,
            P.STREAMS_MANAGE,
            P.GROUPS_MANAGE,
            P.KV_WRITE,
            P.EVENTS_EMIT,
        },
        help="registers and deploys, and tries out what it deployed",
    ),
    "operator": Role(
        READS
        | RUNS
        | {
            P.RUNS_MANAGE,
            P.WORKFLOWS_SIGNAL,
            P.WORKFLOWS_MANAGE,
            P.SCHEDULES_MANAGE,
            P.PIPELINES_MANAGE,
            P.WORKERS_MANAGE,
            P.GROUPS_MANAGE,
            P.EVENTS_EMIT,
        },
        help="starts, signals, cancels, requeues, drains, pauses",
    ),
    "invoker": Role(
        RUNS,
        own=frozenset({P.RUNS_READ, P.WORKFLOWS_READ}),
        help="invokes and starts, and reads what it began",
    ),
    "worker": Role(
        frozenset({P.TASKS_WORK, P.STREAMS_CONSUME, P.STREAMS_READ, P.ACTIONS_READ}),
        help="claims and reports, for the names of its scope",
    ),
    "viewer": Role(READS, help="reads everything but tokens, and changes nothing"),
}


def roles_with(custom: Mapping[str, Iterable[str]]) -> dict[str, Role]:
    """All roles: those that are always there, and those that a configuration adds."""
    roles = dict(ROLES)
    for name, patterns in custom.items():
        if name in ROLES:
            raise _invalid(f"the role {name!r} is always there, and stays as it is")
        roles[name] = Role(frozenset(_permissions(name, patterns)), help="of flo.toml")
    return roles


def _permissions(role: str, patterns: Iterable[str]) -> Iterable[Permission]:
    for pattern in patterns:
        found = [one for one in Permission if fnmatchcase(one.value, pattern)]
        if not found:
            raise _invalid(f"[roles.{role}]: there is no permission {pattern!r}")
        yield from found


def _invalid(message: str) -> Invalid:
    return Invalid(f"configuration: {message}", code="invalid_configuration")
