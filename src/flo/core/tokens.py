"""The secrets of tokens: how they are made, and what is kept of them."""

import secrets
from hashlib import sha256

TOKEN_PREFIX = "flo_"
SECRET_BYTES = 32


def new_token() -> str:
    """A token that nobody can guess, and that a scanner of leaked secrets can recognize."""
    return TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(token: str) -> str:
    """What is kept of it: it has so much entropy that no salt is needed."""
    return sha256(token.encode()).hexdigest()
