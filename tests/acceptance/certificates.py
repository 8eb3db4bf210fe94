"""Certificates for tests: an authority of our own, and what it has signed."""

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
)


class Authority:
    def __init__(self, folder):
        self.file = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("tests")
        certificate = _built("tests", self._name, self._key, self._key, is_authority=True)
        self._certificate = certificate
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, cert, key, name="localhost"):
        """A new certificate and its key, in these files."""
        private = ec.generate_private_key(ec.SECP256R1())
        certificate = _built(name, self._name, private, self._key)
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate.serial_number


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _built(subject, issuer, key, signer, *, is_authority=False):
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(NAMES, critical=False)
    )
    return builder.sign(signer, hashes.SHA256())
