"""The keys of an issuer, from a file or from its address; fetched again when they may have changed.

The address is resolved once, and that is connected to: a name that points elsewhere a moment later
leads nowhere. Addresses of private networks are refused, and redirects are not followed.
"""

import asyncio
import ipaddress
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from flo.model.errors import Unavailable
from flo.shard.clock import Clock

FETCH_S_MAX = 5.0
LENGTH_MAX = 1024 * 1024
FRESH_MS = 3_600_000
"""Keys older than this are fetched again."""
AGAIN_MS = 30_000
"""A key that is not known has them fetched again, but not more often than this."""


class KeySet:
    def __init__(self, source: str, clock: Clock, *, allow_private: bool = False) -> None:
        self._source = source
        self._clock = clock
        self._allow_private = allow_private
        self._keys: dict[str, dict[str, Any]] = {}
        self._fetched_at_ms: int | None = None
        self._lock = asyncio.Lock()

    async def key(self, key_id: str) -> dict[str, Any] | None:
        """The key of this id; None if the issuer has none."""
        if not self._may_be_old(key_id):
            return self._keys.get(key_id)
        async with self._lock:
            if self._may_be_old(key_id):
                self._keys = await asyncio.to_thread(self._read)
                self._fetched_at_ms = self._clock.now_ms()
        return self._keys.get(key_id)

    def _may_be_old(self, key_id: str) -> bool:
        if self._fetched_at_ms is None:
            return True
        age_ms = self._clock.now_ms() - self._fetched_at_ms
        return age_ms >= (FRESH_MS if key_id in self._keys else AGAIN_MS)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            if "://" in self._source:
                text = fetch(self._source, allow_private=self._allow_private)
            else:
                text = Path(self._source).read_bytes()
            keys = msgspec.json.decode(text, type=dict[str, Any]).get("keys", [])
            return {str(key.get("kid", "")): key for key in keys if key.get("kty") != "oct"}
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            raise Unavailable(
                f"the keys of the issuer cannot be read: {type(error).__name__}",
                code="keys_unavailable",
            ) from error


def fetch(url: str, *, allow_private: bool = False) -> bytes:
    """What is at an address, if it is one of the public network."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    if not is_tls and not (allow_private and parts.scheme == "http"):
        raise OSError(f"expected https, got {parts.scheme}")
    host = parts.hostname or ""
    port = parts.port or (443 if is_tls else 80)
    address = public_address(host, port, allow_private=allow_private)
    connection = HTTPConnection(host, port, timeout=FETCH_S_MAX)
    if is_tls:
        connection = HTTPSConnection(host, port, timeout=FETCH_S_MAX)
    plain = socket.create_connection((address, port), FETCH_S_MAX)
    try:
        context = ssl.create_default_context()
        connection.sock = context.wrap_socket(plain, server_hostname=host) if is_tls else plain
        path = parts.path or "/"
        connection.request("GET", f"{path}?{parts.query}" if parts.query else path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"expected 200, got {answer.status}")
        text = answer.read(LENGTH_MAX + 1)
        if len(text) > LENGTH_MAX:
            raise OSError(f"expected at most {LENGTH_MAX} bytes")
        return text
    finally:
        plain.close()
        connection.close()


def public_address(host: str, port: int, *, allow_private: bool) -> str:
    """The one address that is connected to; OSError if one of the host's is not public."""
    found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for text in found:
        if not allow_private and not is_public(text):
            raise OSError("the address is one of a private network")
    return found[0]


def is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if mapped is not None:
        address = mapped
    return address.is_global and not address.is_multicast
