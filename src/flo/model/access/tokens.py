"""Who may use the server: tokens, with their commands, queries and replies.

The secret of a token is made by whoever asks for one, and only its SHA-256 travels: neither the log
nor an answer that is remembered ever holds what would let somebody in.
"""

import re
from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import field

from flo.model.base import Message, Nothing
from flo.model.declare.fields import Checked, Cursor, Limit, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import Invalid
from flo.model.ids import LIST_LIMIT_DEFAULT

TOKEN_NAME_LENGTH_MAX = 63
ROLE_LENGTH_MAX = 63
PATTERNS_MAX = 100
PATTERN_LENGTH_MAX = 256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_token_name(name: str) -> None:
    if len(name) > TOKEN_NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise Invalid(
            f"expected a token name of 1 to {TOKEN_NAME_LENGTH_MAX} letters, digits, '_', '-', "
            "'.' or '@', the first a letter or a digit",
            code="invalid_token_name",
        )


def check_role_name(role: str) -> None:
    if len(role) > ROLE_LENGTH_MAX or not _NAME.fullmatch(role):
        raise Invalid("expected the name of a role", code="invalid_role")


def check_digest(digest: str) -> None:
    """What does not fit is not repeated: it may be the secret itself."""
    if not _DIGEST.fullmatch(digest):
        raise Invalid(
            "expected the SHA-256 of a secret, as 64 hexadecimal digits", code="invalid_digest"
        )


def check_patterns(patterns: list[str]) -> None:
    if len(patterns) > PATTERNS_MAX:
        raise Invalid(f"expected at most {PATTERNS_MAX} patterns, got {len(patterns)}")
    for pattern in patterns:
        if not 1 <= len(pattern) <= PATTERN_LENGTH_MAX or not pattern.isprintable():
            raise Invalid(f"expected patterns of 1 to {PATTERN_LENGTH_MAX} characters")


TokenName: TypeAlias = Annotated[str, about("The token's name.")]
NewTokenName: TypeAlias = Annotated[TokenName, Checked(check_token_name)]
RoleName: TypeAlias = Annotated[
    str,
    Checked(check_role_name),
    about("admin, developer, operator, invoker, worker, viewer, or a role of flo.toml."),
]
Digest: TypeAlias = Annotated[
    str, Checked(check_digest), about("SHA-256 of the secret, in hexadecimal digits.")
]
Patterns: TypeAlias = Annotated[list[str], Checked(check_patterns)]


class TokenStatus(StrEnum):
    VALID = "valid"
    EXPIRED = "expired"


class TokenView(Message):
    """A token, without its secret: that is known to nobody but its holder."""

    name: TokenName
    role: str
    namespaces: list[str]
    """Where it may be used; everywhere if there is none."""
    only: list[str]
    """The names that it may be used for; all if there is none."""
    status: TokenStatus
    created_at_ms: int
    created_by: str | None
    rotated_at_ms: int | None
    expires_at_ms: int | None
    last_used_at_ms: int | None
    """Since the server was started; None if it was not used since."""


class TokenPage(Message):
    items: list[TokenView]
    cursor: str | None = None


@operation(opcode=250, permission=Permission.ACCESS_MANAGE)
class CreateToken(Command[TokenView]):
    """Let somebody in: a token with a role, for some namespaces and names, or for all."""

    name: NewTokenName
    role: RoleName
    digest: Digest
    namespaces: Annotated[
        Patterns, about("Namespaces, or patterns such as team-*; all if left out.")
    ] = field(default_factory=list)
    only: Annotated[Patterns, about("Names, or patterns such as send-*; all if left out.")] = field(
        default_factory=list
    )
    expires_at_ms: Annotated[int | None, about("From when on it is refused.")] = None


@operation(opcode=251, permission=Permission.ACCESS_MANAGE)
class RotateToken(Command[TokenView]):
    """Give a token another secret; the one before is refused at once."""

    name: TokenName
    digest: Digest
    expires_at_ms: Annotated[
        int | None, about("From when on it is refused; as before if left out.")
    ] = None


@operation(
    opcode=252,
    permission=Permission.ACCESS_MANAGE,
    http=Route("DELETE", "/tokens/{name}", errors=(404,)),
)
class RevokeToken(Command[Nothing]):
    """Refuse a token from now on, also on connections that are open."""

    name: TokenName


@operation(opcode=253, permission=Permission.ACCESS_READ, http=Route("GET", "/tokens"))
class ListTokens(Query[TokenPage]):
    """The tokens by name: their roles and scopes, when they were used and when they expire."""

    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
