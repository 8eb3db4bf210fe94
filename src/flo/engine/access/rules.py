"""Rules of tokens: create, rotate, revoke."""

from msgspec.structs import replace

from flo.engine.access.events import TokenCreated, TokenRevoked, TokenRotated
from flo.engine.access.records import Token
from flo.engine.access.views import view_of
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import State
from flo.model.access.tokens import CreateToken, RevokeToken, RotateToken
from flo.model.base import Nothing
from flo.model.errors import Conflict, Invalid, NotFound

TOKENS_MAX = 10_000


def decide_create(state: State, command: CreateToken, context: Context) -> Decision:
    if command.name in state.tokens.by_name:
        raise Conflict(f"a token {command.name!r} exists: rotate or revoke it", code="token_exists")
    if len(state.tokens.by_name) >= TOKENS_MAX:
        raise Conflict(f"there are {TOKENS_MAX} tokens, and that is the most", code="token_limit")
    created = TokenCreated(
        name=command.name,
        role=command.role,
        digest=_new_digest(state, command.digest),
        namespaces=tuple(command.namespaces),
        only=tuple(command.only),
        at_ms=context.now_ms,
        expires_at_ms=_later(command.expires_at_ms, context),
    )
    return Decision(view_of(_made(created, None), context), (created,))


def decide_rotate(state: State, command: RotateToken, context: Context) -> Decision:
    token = named_token(state, command.name)
    rotated = TokenRotated(
        name=command.name,
        digest=_new_digest(state, command.digest),
        at_ms=context.now_ms,
        expires_at_ms=_later(command.expires_at_ms, context) or token.expires_at_ms,
    )
    return Decision(view_of(_turned(token, rotated), context), (rotated,))


def decide_revoke(state: State, command: RevokeToken, context: Context) -> Decision:
    named_token(state, command.name)
    return Decision(Nothing(), (TokenRevoked(name=command.name, at_ms=context.now_ms),))


def apply_created(state: State, event: TokenCreated) -> None:
    state.tokens.put(_made(event, state.by))


def apply_rotated(state: State, event: TokenRotated) -> None:
    state.tokens.put(_turned(state.tokens.by_name[event.name], event))


def apply_revoked(state: State, event: TokenRevoked) -> None:
    state.tokens.remove(event.name)


def named_token(state: State, name: str) -> Token:
    token = state.tokens.by_name.get(name)
    if token is None:
        raise NotFound(f"token {name!r} does not exist", code="token_not_found")
    return token


def _made(event: TokenCreated, by: str | None) -> Token:
    return Token(
        name=event.name,
        role=event.role,
        digest=event.digest,
        namespaces=event.namespaces,
        only=event.only,
        created_at_ms=event.at_ms,
        created_by=by,
        expires_at_ms=event.expires_at_ms,
    )


def _turned(token: Token, event: TokenRotated) -> Token:
    return replace(
        token,
        digest=event.digest,
        rotated_at_ms=event.at_ms,
        expires_at_ms=event.expires_at_ms,
    )


def _new_digest(state: State, digest: str) -> bytes:
    """A secret that is in use already would let its holder in under two names."""
    plain = bytes.fromhex(digest)
    if plain in state.tokens.by_digest:
        raise Conflict("this secret is in use: make another one", code="secret_in_use")
    return plain


def _later(expires_at_ms: int | None, context: Context) -> int | None:
    if expires_at_ms is not None and expires_at_ms <= context.now_ms:
        raise Invalid("expected an expiry that is yet to come", code="expiry_in_the_past")
    return expires_at_ms
