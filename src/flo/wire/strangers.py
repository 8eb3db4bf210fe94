"""What a client says of an answer that is not of our protocol."""

import re

from flo.model.errors import Invalid

_RPC = re.compile(rb'"rpc":"([^"]{1,300})"')


def check_answer(data: bytes) -> None:
    """Refuse the first bytes of a connection if an HTTP server or TLS has sent them."""
    if data.startswith(b"HTTP/"):
        told = _RPC.search(data)
        where = told[1].decode(errors="replace") if told else "another, usually 9000"
        raise Invalid(f"this is the HTTP port, RPC is on {where}", code="wrong_port")
    if data.startswith(b"\x15\x03"):
        raise Invalid("this port speaks TLS, and it was spoken to without", code="wrong_port")
