"""Checkpoints: signed notes of how far a log had come, and with what digest.

A copy that is kept elsewhere proves later that nothing before it was changed, and that nothing of
it is missing: a log that was cut off does not reach it any more.
"""

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from flo.log.checksums import LINK_FIRST, Link
from flo.log.folder import FILE_MODE
from flo.log.segments import SegmentFolder
from flo.log.sqlite.entries import verify_log
from flo.log.sqlite.file import default_connect, open_to_read, read_meta, read_store
from flo.log.sqlite.history import read_kept
from flo.model.errors import Conflict, Corrupt, Invalid, NotFound
from flo.shard.past import Past
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER

FORMAT = "flo-checkpoint-1"


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: all of it but the signature."""

    format: str
    store: str
    """The id of the store: which log it is."""
    position: int
    digest: str
    """The SHA-256 that the entry at the position is chained to."""
    state: str
    """The fingerprint of the state there."""
    last_at_ms: int
    made_at_ms: int
    key: str
    """The public key, in base64; who checks must have it from elsewhere."""
    signature: str = ""

    def signed_part(self) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(self, signature=""))


def make_key(path: Path) -> Path:
    """Write a new private key, for its owner only, and the public key beside it."""
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    beside = path.with_name(f"{path.name}.pub")
    for file, content, mode in ((path, text, FILE_MODE), (beside, public, 0o644)):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise Conflict(
                f"{file} exists, and a key is never written over", code="key_exists"
            ) from None
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
    return beside


def make_checkpoint(data_dir: Path, key: Path, made_at_ms: int) -> Checkpoint:
    """Sign where the log ends now; its chain is checked first."""
    private: Any = _loaded(key, lambda data: serialization.load_pem_private_key(data, None))
    path = data_dir / LOG_FILE
    verify_log(path)
    connection = open_to_read(path, default_connect)
    try:
        meta, store = read_meta(connection, path), read_store(connection, path)
    finally:
        connection.close()
    past = Past(data_dir).state_at(meta.position)
    unsigned = Checkpoint(
        format=FORMAT,
        store=store.store_id.hex() if store is not None else "",
        position=meta.position,
        digest=meta.position_link.digest.hex(),
        state=fingerprint(past.state),
        last_at_ms=past.at_ms,
        made_at_ms=made_at_ms,
        key=_raw(private.public_key()),
    )
    signature = b64encode(private.sign(unsigned.signed_part())).decode("ascii")
    return msgspec.structs.replace(unsigned, signature=signature)


def read_checkpoint(text: bytes, public_key: Path) -> Checkpoint:
    """A checkpoint that this key has signed; any other is Corrupt."""
    try:
        checkpoint = msgspec.json.decode(text, type=Checkpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"expected a checkpoint: {error}", code="checkpoint_invalid") from None
    if checkpoint.format != FORMAT:
        raise Invalid(
            f"expected a checkpoint of format {FORMAT!r}, got {checkpoint.format!r}",
            code="checkpoint_invalid",
        )
    key: Any = _loaded(public_key, serialization.load_pem_public_key)
    try:
        key.verify(b64decode(checkpoint.signature, validate=True), checkpoint.signed_part())
    except Exception as error:  # InvalidSignature of an optional package, or bytes that are none
        raise Corrupt(
            f"the checkpoint is not signed with the key in {public_key}, or was changed since",
            code="checkpoint_forged",
        ) from error
    return checkpoint


def compare(data_dir: Path, checkpoint: Checkpoint) -> None:
    """Prove that the log still has all that it had at the checkpoint; what is wrong is Corrupt."""
    path = data_dir / LOG_FILE
    connection = open_to_read(path, default_connect)
    try:
        meta, store = read_meta(connection, path), read_store(connection, path)
    finally:
        connection.close()
    if store is None or store.store_id.hex() != checkpoint.store:
        raise Corrupt(
            f"{path} is another log than the one of the checkpoint", code="checkpoint_of_other"
        )
    if checkpoint.position > meta.position:
        raise Corrupt(
            f"{path} was cut off: the checkpoint knows it up to index {checkpoint.position}, it "
            f"ends at {meta.position}",
            code="log_truncated",
        )
    link = _link_at(data_dir, checkpoint.position)
    if link is None or link.digest.hex() != checkpoint.digest:
        got = "no entry ends there" if link is None else link.digest.hex()
        raise Corrupt(
            f"{path} was changed before index {checkpoint.position}: expected SHA-256 "
            f"{checkpoint.digest} there, got {got}",
            code="log_changed",
        )
    _compare_state(data_dir, checkpoint)


def _compare_state(data_dir: Path, checkpoint: Checkpoint) -> None:
    state = Past(data_dir).state_at(checkpoint.position).state
    if fingerprint(state) != checkpoint.state:
        raise Corrupt(
            f"{data_dir}: a snapshot before index {checkpoint.position} was changed: what is "
            "replayed on it is another state than the one that was signed",
            code="snapshot_changed",
        )


def _link_at(data_dir: Path, position: int) -> Link | None:
    """What the entry at a position is chained to; None if none begins there."""
    path, segments = data_dir / LOG_FILE, SegmentFolder(data_dir / SEGMENT_FOLDER)
    if position == 0:
        return LINK_FIRST
    try:
        for entry in read_kept(path, segments, position):
            return entry.previous if entry.first == position else None
    except NotFound as error:
        raise NotFound(
            f"the checkpoint is of index {position}, and the log is not kept that far back any "
            "more: use a newer one",
            code="checkpoint_too_old",
        ) from error
    return verify_log(path)


def _loaded(path: Path, load: Any) -> Any:
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(
            f"the key in {path} cannot be used: {error}; make one with: flo log new-key FILE",
            code="key_invalid",
        ) from None


def _raw(public: Any) -> str:
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return b64encode(raw).decode("ascii")
