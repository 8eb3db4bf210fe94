"""What is said to a client that speaks HTTP or TLS to the port of the binary protocol."""

METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"PATCH ", b"OPTIONS ")
TLS_HELLO = b"\x16\x03"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
"""Fatal: a version of the protocol that is not spoken here, which is none at all."""


def answer_to_stranger(data: bytes, http_url: str | None) -> bytes | None:
    """The answer, if the first bytes of a connection are of another protocol."""
    if data.startswith(TLS_HELLO):
        return TLS_ALERT
    if not data.startswith(METHODS):
        return None
    where = f"the HTTP API is at {http_url}" if http_url is not None else "there is no HTTP API"
    body = f"This is the RPC port, for clients and workers; {where}.\n".encode()
    head = (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n"
    )
    return head % len(body) + body
