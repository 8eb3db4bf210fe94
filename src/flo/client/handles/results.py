"""The output of what has ended, decoded, and the words for what has ended without one."""

from typing import Any

from flo.client.payloads.payload import decode_payload
from flo.model.errors import Invalid

ENDED = {"failed": "failed", "cancelled": "been cancelled", "timed_out": "timed out"}
"""Status to what is said of it: "run 'a-1' has been cancelled"."""


def decoded_output(what: str, output: bytes | None, type: Any) -> Any:
    try:
        return decode_payload(output or b"", type)
    except Invalid as error:
        raise Invalid(f"the output of {what}: {error.message}", code=error.code) from error
