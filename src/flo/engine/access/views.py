"""Tokens as their administrators see them."""

from flo.engine.access.records import Token
from flo.engine.context import Context
from flo.model.access.tokens import TokenStatus, TokenView


def view_of(token: Token, context: Context) -> TokenView:
    is_expired = token.is_expired(context.now_ms)
    return TokenView(
        name=token.name,
        role=token.role,
        namespaces=list(token.namespaces),
        only=list(token.only),
        status=TokenStatus.EXPIRED if is_expired else TokenStatus.VALID,
        created_at_ms=token.created_at_ms,
        created_by=token.created_by,
        rotated_at_ms=token.rotated_at_ms,
        expires_at_ms=token.expires_at_ms,
        last_used_at_ms=context.volatile.token_uses.get(token.name),
    )
