"""Secrets: values that only workers are given; commands, queries, replies.

The value goes in, and never comes out but to a worker whose action names the secret. The server
seals it before it is decided on: the log, the state and every answer have the seal at most.
"""

from typing import Annotated, TypeAlias

from flo.model.base import Message, Nothing
from flo.model.declare.fields import Checked, Cursor, Limit, NewNamespace, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import Invalid
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    Namespace,
    check_secret_name,
)

VALUE_LENGTH_MIN = 8
"""A shorter value could not be told from other text, where a handler repeats it."""
VALUE_LENGTH_MAX = 64 * 1024

SecretName: TypeAlias = Annotated[str, Checked(check_secret_name), about("The secret's name.")]


def check_value(value: str) -> None:
    """What is wrong is said without saying the value."""
    length = len(value.encode("utf-8", "surrogatepass"))
    if not VALUE_LENGTH_MIN <= length <= VALUE_LENGTH_MAX:
        raise Invalid(
            f"expected a secret of {VALUE_LENGTH_MIN} to {VALUE_LENGTH_MAX} bytes, got {length}",
            code="invalid_secret",
        )


class SecretView(Message):
    """A secret, without its value."""

    name: str
    version: int
    set_at_ms: int
    by: str | None
    """Who set it, if that came from outside."""
    key_id: str
    """The key that it is sealed with."""


class SecretPage(Message):
    items: list[SecretView]
    cursor: str | None = None


class SecretSet(Message):
    name: str
    version: int


class SecretsResealed(Message):
    """How many were sealed anew, with which key."""

    count: int
    key_id: str


@operation(
    opcode=270,
    permission=Permission.SECRETS_WRITE,
    http=Route("PUT", "/secrets/{name}", errors=(409,)),
)
class SetSecret(Command[SecretSet]):
    """Set the value of a secret; workers are given it with the tasks of actions that name it."""

    name: SecretName
    value: Annotated[str, Checked(check_value), about("The value; it is never shown.")]
    namespace: NewNamespace = NAMESPACE_DEFAULT

    def __repr__(self) -> str:
        return f"SetSecret(name={self.name!r}, namespace={self.namespace!r})"


@operation(
    opcode=271,
    permission=Permission.SECRETS_READ,
    http=Route("GET", "/secrets"),
)
class ListSecrets(Query[SecretPage]):
    """The names of the secrets, since when they are as they are; never a value."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=272,
    permission=Permission.SECRETS_WRITE,
    http=Route("DELETE", "/secrets/{name}", errors=(404,)),
    cli="flo secret delete STRIPE_KEY",
)
class DeleteSecret(Command[Nothing]):
    """Delete a secret; tasks that are claimed from now on come without it."""

    name: SecretName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=273,
    permission=Permission.SECRETS_WRITE,
    http=Route("POST", "/secrets/rotate-key", errors=(409,)),
    cli="flo secret rotate-key",
)
class RotateKey(Command[SecretsResealed]):
    """Read the key file again, and seal every secret of all namespaces with its first key."""
