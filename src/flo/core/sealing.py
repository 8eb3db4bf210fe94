"""Keys that seal: AES-GCM with the id of the key before the sealed bytes, so that keys can change.

    sealed    magic 4 · key id 8 · nonce 12 · ciphertext and its tag

A key file has one key in a line, in base64; the first seals, all of them open. Lines that begin
with # say something to their reader.
"""

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

MAGIC = b"FLS\x01"
"""No JSON begins so, nor does msgpack that is sent as a payload."""
KEY_LENGTH = 32
KEY_ID_LENGTH = 8
NONCE_LENGTH = 12
_HEAD = len(MAGIC) + KEY_ID_LENGTH
HOW_TO_MAKE = "make one with: flo secret new-key FILE"


class SealError(ValueError):
    """What was sealed cannot be opened, or there is no key; it never holds what is inside."""


class KeyRing:
    """Some keys; the first seals, all of them open."""

    def __init__(self, keys: Sequence[bytes], draw: Callable[[int], bytes] = os.urandom) -> None:
        if not keys:
            raise SealError(f"expected at least one key, got none: {HOW_TO_MAKE}")
        for key in keys:
            if len(key) != KEY_LENGTH:
                raise SealError(
                    f"expected keys of {KEY_LENGTH} bytes in base64, got one of {len(key)}: "
                    f"{HOW_TO_MAKE}"
                )
        from cryptography.hazmat.primitives.ciphers.aead import (
            AESGCM,
        )

        self._draw = draw
        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self.current = key_id(keys[0])
        """The id of the key that seals."""

    @classmethod
    def from_file(cls, path: Path) -> "KeyRing":
        try:
            return cls.from_text(path.read_text("ascii"))
        except (OSError, UnicodeDecodeError, SealError) as error:
            raise SealError(f"the keys in {path} cannot be used: {error}") from None

    @classmethod
    def from_text(cls, text: str) -> "KeyRing":
        """One key in a line; blanks separate them too, as in an environment variable."""
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        return cls([_decoded(word) for line in lines for word in line.split()])

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(one.hex() for one in self._ciphers)

    def seal(self, data: bytes, context: bytes = b"") -> bytes:
        """Only who has the key, and names the same context, can open it."""
        nonce = self._draw(NONCE_LENGTH)
        ciphertext = self._ciphers[self.current].encrypt(nonce, data, context)
        return MAGIC + self.current + nonce + ciphertext

    def open(self, sealed: bytes, context: bytes = b"") -> bytes:
        if not is_sealed(sealed):
            raise SealError("expected sealed bytes, got others")
        cipher = self._ciphers.get(sealed[len(MAGIC) : _HEAD])
        if cipher is None:
            raise SealError(f"it is sealed with key {key_id_of(sealed)}, which is not here")
        nonce, ciphertext = sealed[_HEAD : _HEAD + NONCE_LENGTH], sealed[_HEAD + NONCE_LENGTH :]
        try:
            return cipher.decrypt(nonce, ciphertext, context)
        except Exception as error:  # InvalidTag of an optional package, or a length that is wrong
            raise SealError("what was sealed has been changed, or is something else's") from error


def is_sealed(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC and len(data) >= _HEAD + NONCE_LENGTH


def key_id_of(sealed: bytes) -> str:
    """Which key it is sealed with."""
    return sealed[len(MAGIC) : _HEAD].hex()


def key_id(key: bytes) -> bytes:
    """What a key is called: it follows from the key, and says nothing about it."""
    return sha256(b"flo key id\0" + key).digest()[:KEY_ID_LENGTH]


def new_key() -> str:
    """A line of a key file."""
    return base64.b64encode(os.urandom(KEY_LENGTH)).decode("ascii")


def _decoded(word: str) -> bytes:
    try:
        return base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        raise SealError("expected keys in base64, got something else") from None
