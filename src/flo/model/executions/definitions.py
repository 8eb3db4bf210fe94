"""The definitions of workflow executions, looked up by the digests that executions tell."""

from typing import Annotated

from flo.model.declare.fields import Checked, about
from flo.model.declare.operation import Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import Invalid
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.workflows import WorkflowView

DIGEST_PREFIX_LENGTH_MIN = 8
"""So many digits of a digest tell one definition from the others, nearly always."""
DIGEST_LENGTH = 64


def _check_digest(digest: str) -> None:
    is_hex = all(one in "0123456789abcdef" for one in digest.lower())
    if not is_hex or not DIGEST_PREFIX_LENGTH_MIN <= len(digest) <= DIGEST_LENGTH:
        raise Invalid(
            f"expected {DIGEST_PREFIX_LENGTH_MIN} to {DIGEST_LENGTH} hexadecimal digits of a "
            f"definition, got {digest[:80]!r}"
        )


@operation(
    opcode=127,
    permission=Permission.WORKFLOWS_READ,
    http=Route("GET", "/definitions/{definition}", errors=(404, 409)),
)
class GetDefinition(Query[WorkflowView]):
    """The definition whose text has this SHA-256, deployed or deleted, while a record names it.

    The first 8 digits or more will do; if several begin so, it is `definition_ambiguous`.
    """

    definition: Annotated[
        str, Checked(_check_digest), about("The SHA-256 of its text in hex, or how it begins.")
    ]
    namespace: Namespace = NAMESPACE_DEFAULT
