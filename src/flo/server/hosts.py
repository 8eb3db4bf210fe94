"""AllowedHosts: the names under which this server may be asked for over HTTP.

A web page can let its own name point to 127.0.0.1, and then read and command whatever serves there
(DNS rebinding). Such a request still carries the page's name in its `Host`. So a request must name
the server by an IP address, which no page can turn elsewhere, by `localhost`, or by a name that was
configured.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence

ANY = "*"
"""Configured as a host: every name is allowed."""

_AUTHORITY = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%\w-]+\]|[\w.-]+)(:[0-9]{0,5})?", re.ASCII)


class AllowedHosts:
    def __init__(self, names: Iterable[str] = ()) -> None:
        self.configured = frozenset(_plain(name.strip()) for name in names) - {""}

    def allows(self, hosts: Sequence[bytes]) -> bool:
        """Whether a request with these `Host` headers is meant for this server."""
        if len(hosts) != 1:
            return False
        name = _host_name(hosts[0])
        return name is not None and (
            name == "localhost"
            or name in self.configured
            or ANY in self.configured
            or _is_address(name)
        )

    def allows_origin(self, origin: bytes, host: bytes) -> bool:
        """Whether a page with this `Origin` is one of ours: of the same host, or configured."""
        authority = origin.partition(b"://")[2]
        return authority == host or _host_name(authority) in self.configured


def _host_name(authority: bytes) -> str | None:
    """The name in `NAME` or `NAME:PORT`; None if it is neither."""
    match = _AUTHORITY.fullmatch(authority.decode("latin-1"))
    return _plain(match["name"]) if match is not None else None


def _plain(name: str) -> str:
    return name.strip("[]").removesuffix(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
