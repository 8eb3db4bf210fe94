"""TLS for every listener: one context, whose certificate is read again when its files change."""

import asyncio
import ssl
from pathlib import Path

import structlog

from flo.model.errors import Invalid
from flo.server.config import ServerConfig

HANDSHAKE_S_MAX = 10.0
"""Whoever takes longer to agree on a key is hung up on."""
BACKLOG = 1_024
"""So many connections may wait to be accepted."""
LOOK_S = 5.0
"""How often it is looked whether the files have changed."""

_logger = structlog.get_logger("flo.tls")


class Certificate:
    """A certificate and its key, as their files have them now; SIGHUP has them read at once."""

    def __init__(self, config: ServerConfig) -> None:
        self._cert, self._key = config.tls_cert, config.tls_key
        self._stamp = self._stamped()
        self._looking: asyncio.Task[None] | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self.context.load_cert_chain(self._cert, self._key)
            if config.tls_client_ca:
                self.context.load_verify_locations(config.tls_client_ca)
                self.context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise Invalid(
                f"cannot use {self._cert}, {self._key} or {config.tls_client_ca or 'no authority'} "
                f"for TLS: {error}",
                code="invalid_certificate",
            ) from error

    async def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def reload(self) -> bool:
        """Use the files as they are for connections to come; if they are no good, as they were."""
        try:
            # A context that fails half-way would keep a certificate without its key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._cert, self._key)
            self.context.load_cert_chain(self._cert, self._key)
        except (OSError, ssl.SSLError) as error:
            _logger.warning("certificate_not_reloaded", file=self._cert, problem=str(error))
            return False
        _logger.info("certificate_reloaded", file=self._cert)
        return True

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            stamp = self._stamped()
            if stamp != self._stamp:
                self._stamp = stamp
                self.reload()

    def _stamped(self) -> tuple[int, ...]:
        """What changes when the files do."""
        try:
            found = [Path(name).stat() for name in (self._cert, self._key)]
        except OSError:
            return ()
        return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ino))


def common_name(certificate: dict[str, object] | None) -> str | None:
    """The name in the subject of a certificate that a client has shown."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    for part in subject:
        for key, value in part:
            if key == "commonName":
                return str(value)
    return None
