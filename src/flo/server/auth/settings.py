"""What flo.toml says of access: roles, the issuer of JSON web tokens, certificates of clients.

[roles.deployer]
permissions = ["workflows:deploy", "*:read"]

[oidc]
issuer = "https://login.example.com"
audience = "flo"
jwks = "https://login.example.com/keys"
rules = [{ claim = "groups", value = "flo-admins", role = "admin" }]

[certificates.mailer]
role = "worker"
namespaces = ["shop"]
"""

import msgspec


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class RoleTable(Table, frozen=True, kw_only=True):
    permissions: tuple[str, ...]
    """Patterns are allowed: *:read."""


class Grant(Table, frozen=True, kw_only=True):
    """A role, for some namespaces and names or for all."""

    role: str
    namespaces: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


class ClaimRule(Grant, frozen=True, kw_only=True):
    """Whoever has this value in this claim has the role; the first rule that fits counts."""

    claim: str
    value: str


class OidcTable(Table, frozen=True, kw_only=True):
    issuer: str
    audience: str
    jwks: str
    """A file, or an https address."""
    name: str = "sub"
    """The claim that says who it is."""
    rules: tuple[ClaimRule, ...] = ()
    allow_private: bool = False
    """Whether the keys may be fetched from an address of a private network, or without TLS."""


class AccessSettings(Table, frozen=True, kw_only=True):
    roles: dict[str, RoleTable] = {}
    oidc: OidcTable | None = None
    certificates: dict[str, Grant] = {}
    """By the common name in the subject."""


NO_ACCESS_SETTINGS = AccessSettings()
