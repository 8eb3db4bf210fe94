"""JSON web tokens: whom an issuer vouches for, with the role that flo.toml gives for a claim."""

from collections.abc import Mapping
from typing import Any

import jwt

from flo.model.errors import Unauthenticated
from flo.server.auth.identity import Identity, Kind, NameScope
from flo.server.auth.jwks import KeySet
from flo.server.auth.roles import Role
from flo.server.auth.settings import ClaimRule, OidcTable
from flo.shard.clock import Clock

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""None with a secret that both sides know: a public key must never be taken for one."""
LEEWAY_S = 30
REMEMBERED_MAX = 1_000
NAME_LENGTH_MAX = 128


class JwtIssuer:
    def __init__(self, table: OidcTable, roles: Mapping[str, Role], clock: Clock) -> None:
        self._table = table
        self._roles = roles
        self._clock = clock
        self._keys = KeySet(table.jwks, clock, allow_private=table.allow_private)
        self._remembered: dict[str, Identity] = {}

    async def identify(self, credential: str) -> Identity:
        """Who has this token; Unauthenticated if nobody has."""
        known = self._remembered.get(credential)
        if known is not None and (known.expires_at_ms or 0) > self._clock.now_ms():
            return known
        identity = self._identity(await self._claims(credential))
        self._remembered.pop(credential, None)
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[credential] = identity
        return identity

    async def _claims(self, credential: str) -> dict[str, Any]:
        try:
            key_id = str(jwt.get_unverified_header(credential).get("kid", ""))
            found = await self._keys.key(key_id)
            if found is None:
                raise _invalid()
            claims = jwt.decode(
                credential,
                jwt.PyJWK.from_dict(found).key,
                algorithms=ALGORITHMS,
                audience=self._table.audience,
                issuer=self._table.issuer,
                options={
                    "require": ["exp", "iss", "aud", self._table.name],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            now_s = self._clock.now_ms() / 1_000
            if float(claims["exp"]) + LEEWAY_S <= now_s:
                raise Unauthenticated("the token has expired", code="token_expired")
            if float(claims.get("nbf", 0)) - LEEWAY_S > now_s:
                raise _invalid()
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _invalid() from error
        return claims

    def _identity(self, claims: dict[str, Any]) -> Identity:
        rule = next((one for one in self._table.rules if _fits(one, claims)), None)
        if rule is None or rule.role not in self._roles:
            raise Unauthenticated(
                "no rule of this server gives the holder of the token a role", code="no_role"
            )
        role = self._roles[rule.role]
        return Identity(
            name=str(claims[self._table.name])[:NAME_LENGTH_MAX],
            kind=Kind.JWT,
            role=rule.role,
            permissions=role.permissions,
            own=role.own,
            namespaces=NameScope(rule.namespaces),
            names=NameScope(rule.only),
            expires_at_ms=int((float(claims["exp"]) + LEEWAY_S) * 1_000),
        )


def _fits(rule: ClaimRule, claims: Mapping[str, Any]) -> bool:
    value = claims.get(rule.claim)
    return rule.value in value if isinstance(value, list) else value == rule.value


def _invalid() -> Unauthenticated:
    return Unauthenticated("the token is not valid here", code="token_invalid")
