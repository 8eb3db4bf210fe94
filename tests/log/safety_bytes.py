"""The bytes that the log has of secrets and of the audit: every event as it is written."""

from flo.engine.audit.events import AuditNoted
from flo.engine.secrets.events import SecretDeleted, SecretsSealedAnew, SecretStored

OF_SAFETY = [
    (
        SecretStored(namespace="n", name="S", version=1, sealed=b"x", key_id="k", at_ms=7),
        b"\x91\x97\xacSecretStored\xa1n\xa1S\x01\xc4\x01x\xa1k\x07",
    ),
    (
        SecretsSealedAnew(namespace="n", key_id="k", seals=((b"x", b"y"),)),
        b"\x91\x94\xb1SecretsSealedAnew\xa1n\xa1k\x91\x92\xc4\x01x\xc4\x01y",
    ),
    (SecretDeleted(namespace="n", name="S", at_ms=7), b"\x91\x94\xadSecretDeleted\xa1n\xa1S\x07"),
    (
        AuditNoted(
            namespace="n",
            number=1,
            at_ms=7,
            operation="delete_action",
            target="a",
            outcome="allowed",
        ),
        b"\x91\x97\xaaAuditNoted\xa1n\x01\x07\xaddelete_action\xa1a\xa7allowed",
    ),
]
