"""Secrets at rest: AES-256-GCM under one server key."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from frazil.core.errors import InvalidConfig, Unavailable

KEY_BYTES = 32
_VERSION = b"\x01"
_NONCE_BYTES = 12
_LABEL = b"frazil secret v1\0"


class SecretBox:
    """Seals and opens small secrets; `context` ties a sealed value to the row that holds it."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidConfig(f"the secret key must have {KEY_BYTES} bytes, this one has {len(key)}")
        self._cipher = AESGCM(key)
        self._key = key
        self._fingerprint = hmac.new(key, b"frazil key fingerprint", hashlib.sha256).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"SecretBox({self._fingerprint})"

    def fingerprint(self) -> str:
        """Says which key this is without saying anything about it."""
        return self._fingerprint

    def derived(self, purpose: bytes) -> bytes:
        """Another key, for another purpose, that says nothing about this one."""
        return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=_LABEL + purpose).derive(self._key)

    def seal(self, plaintext: bytes, context: bytes) -> bytes:
        """version | nonce | ciphertext and tag."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plaintext, _LABEL + context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """The plaintext, if it was sealed with this key for this context and not altered."""
        if sealed[:1] != _VERSION:
            raise InvalidConfig("a stored secret is of an unknown version: was it written by a newer frazil?")
        nonce, ciphertext = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, ciphertext, _LABEL + context)
        except (InvalidTag, ValueError):
            raise Unavailable(
                f"a stored secret cannot be opened with the key {self._fingerprint}: it was sealed with "
                "another key, or for another row, or was altered. Start the server with the key it was "
                "written with; after `frazil key rotate`, with the new one"
            ) from None


def load_or_create_key(path: Path) -> bytes:
    """The key in `path`; a new one is written there (0600) if there is none."""
    if not path.exists():
        _create_key(path)
    return load_key(path)


@contextlib.contextmanager
def sole_rotation(folder: Path) -> Iterator[None]:
    """Two at once could let a key that is not in force take the place of the one that is."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidConfig(
                f"another process is rotating the key in {folder}; nothing was changed"
            ) from None
        yield
    finally:
        os.close(lock)


def replace_key(path: Path, pending: Path) -> None:
    """Let the key in `pending` take the place of the one in `path`, in one step."""
    pending.replace(path)
    _sync_folder(path.parent)


def parse_key(text: str, origin: str) -> bytes:
    """A key in hexadecimal; the message does not repeat it."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidConfig(f"{origin} does not hold a key: {KEY_BYTES} bytes in hexadecimal are expected")
    return key


def _create_key(path: Path) -> None:
    """Publish a complete, durable file under its name in one step; a rival's key wins if it was first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_key(path: Path) -> bytes:
    """The key in `path`, which must be private to its owner."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o027:
        raise InvalidConfig(f"{path} has mode {mode:04o}, not private to the server. Try: chmod 600 {path}")
    return parse_key(path.read_text(encoding="ascii", errors="replace"), str(path))
