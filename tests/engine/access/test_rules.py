"""Tokens: made, rotated, revoked; what the log has of them lets nobody in."""

import pytest

from flo.core.tokens import TOKEN_PREFIX, digest_of, new_token
from flo.engine.access.events import TokenCreated, TokenRevoked, TokenRotated
from flo.model.access.tokens import (
    CreateToken,
    ListTokens,
    RevokeToken,
    RotateToken,
    TokenStatus,
)
from flo.model.errors import Conflict, Invalid, NotFound
from given import NOON_MS, given

OLD, NEW = digest_of("flo_old"), digest_of("flo_new")
CREATE = CreateToken(name="ci", role="developer", digest=OLD, namespaces=["shop"], only=["send-*"])


def test_a_token_is_made_of_a_hash():
    engine = given()
    decision = engine.execute(CREATE)

    assert decision.events[-1] == TokenCreated(
        name="ci",
        role="developer",
        digest=bytes.fromhex(OLD),
        namespaces=("shop",),
        only=("send-*",),
        at_ms=engine.now_ms,
    )
    (token,) = engine.query(ListTokens()).items
    assert (token.name, token.status, token.last_used_at_ms) == ("ci", TokenStatus.VALID, None)


def test_a_rotated_token_has_another_secret_and_the_same_rights():
    engine = given(CREATE)
    decision = engine.execute(RotateToken(name="ci", digest=NEW))

    assert decision.events[-1] == TokenRotated(
        name="ci", digest=bytes.fromhex(NEW), at_ms=engine.now_ms
    )
    assert bytes.fromhex(OLD) not in engine.state.tokens.by_digest
    assert engine.state.tokens.by_digest[bytes.fromhex(NEW)].only == ("send-*",)


def test_a_revoked_token_is_gone_and_its_name_is_free():
    engine = given(CREATE)
    decision = engine.execute(RevokeToken(name="ci"))

    assert decision.events[-1] == TokenRevoked(name="ci", at_ms=engine.now_ms)
    assert not engine.state.tokens.by_digest
    engine.execute(CREATE)


def test_a_token_that_is_over_is_shown_so():
    engine = given(CreateToken(name="ci", role="viewer", digest=OLD, expires_at_ms=NOON_MS * 2))
    engine.now_ms = NOON_MS * 2

    assert engine.query(ListTokens()).items[0].status is TokenStatus.EXPIRED


@pytest.mark.parametrize(
    ("command", "error", "code"),
    [
        (CREATE, Conflict, "token_exists"),
        (CreateToken(name="other", role="viewer", digest=OLD), Conflict, "secret_in_use"),
        (RotateToken(name="ci", digest=OLD), Conflict, "secret_in_use"),
        (RotateToken(name="none", digest=NEW), NotFound, "token_not_found"),
        (RevokeToken(name="none"), NotFound, "token_not_found"),
        (CreateToken(name="a b", role="viewer", digest=NEW), Invalid, "invalid_token_name"),
        (CreateToken(name="a", role="viewer", digest="flo_x"), Invalid, "invalid_digest"),
        (
            CreateToken(name="a", role="viewer", digest=NEW, expires_at_ms=1),
            Invalid,
            "expiry_in_the_past",
        ),
    ],
)
def test_what_cannot_be_is_refused(command, error, code):
    engine = given(CREATE)
    with pytest.raises(error) as refused:
        engine.execute(command)

    assert refused.value.code == code
    assert "flo_" not in refused.value.message


def test_a_secret_has_256_bits_and_a_prefix_that_scanners_know():
    first, second = new_token(), new_token()

    assert first != second
    assert first.startswith(TOKEN_PREFIX)
    assert len(first) >= len(TOKEN_PREFIX) + 43
