"""How a connection is opened: over TCP, or by what is given in its place."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from flo.aio.sockets import set_up_socket
from flo.model.errors import Invalid

Connect: TypeAlias = Callable[[Callable[[], asyncio.Protocol]], Awaitable[asyncio.Transport]]
"""Opens a connection for the protocol that the factory makes; an OSError says it cannot be done."""

PORT_DEFAULT = 9000
PORT_MAX = 65_535


TLS_SCHEME = "flo+tls://"
PLAIN_SCHEME = "flo://"


def tcp(address: str, ca: str | None = None) -> Connect:
    """Over TCP, and over TLS if the address says so; `ca` is a file of authorities to trust."""
    is_tls = isinstance(address, str) and address.startswith(TLS_SCHEME)
    host, port = parse_address(address)
    context: ssl.SSLContext | None = None

    async def connect(protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        nonlocal context
        if is_tls and context is None:
            context = await asyncio.to_thread(_tls, ca)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(protocol, host, port, ssl=context)
        set_up_socket(transport.get_extra_info("socket"))
        return transport

    return connect


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "[v6]:port" or a host alone."""
    if not isinstance(address, str):
        raise Invalid(f"expected an address host:port, got {address!r}", code="invalid_address")
    address = address.removeprefix(TLS_SCHEME).removeprefix(PLAIN_SCHEME)
    host, colon, port = address.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = address, str(PORT_DEFAULT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Invalid(f"expected an IPv6 host in brackets, got {address!r}", code="invalid_address")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise Invalid(f"expected an address host:port, got {address!r}", code="invalid_address")
    return host, int(port)


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"cannot read the authorities in {ca}: {error}", code="invalid_ca") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
