"""Secrets of clients: random, shown once, stored as a slow hash."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from concurrent.futures import ThreadPoolExecutor

from frazil.core.errors import InvalidConfig, Unavailable

#: Found by programs that look for secrets in code.
SECRET_PREFIX = "frz_"  # noqa: S105
_SALT_BYTES = 16
_HASH_BYTES = 32
#: 32 MiB and about a tenth of a second. A secret has 256 random bits: no cost could make it guessable,
#: and a higher one would only slow down jobs that log in at the same time.
_N, _R, _P = 2**15, 8, 1
_MAX_MEMORY = 256 * 1024 * 1024
_FORMAT = re.compile(r"scrypt\$(\d+)\$(\d+)\$(\d+)\$([\w+/=]+)\$([\w+/=]+)")
_RUNNING = 2
_WAITING = 64


def new_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """`scrypt$n$r$p$salt$hash`: the parameters stay with the hash, so that they can be raised later."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return _written(salt, _scrypt(secret, salt, _N, _R, _P))


def matches(secret: str, stored: str) -> bool:
    """Whether `stored` was made of `secret`; takes the same time either way."""
    found = _FORMAT.fullmatch(stored)
    if found is None:
        raise InvalidConfig("the stored hash of a client's secret is of an unknown form")
    n, r, p = (int(number) for number in found.groups()[:3])
    digest = _scrypt(secret, base64.b64decode(found[4]), n, r, p)
    return hmac.compare_digest(digest, base64.b64decode(found[5]))


def _written(salt: bytes, digest: bytes) -> str:
    return f"scrypt${_N}${_R}${_P}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _scrypt(secret: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        secret.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=n,
        r=r,
        p=p,
        maxmem=_MAX_MEMORY,
        dklen=_HASH_BYTES,
    )


class SecretChecker:
    """Checks secrets in a few threads, so that a flood of logins exhausts neither memory nor the server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RUNNING, thread_name_prefix="client-secret")
        self._pending = 0
        #: What an unknown client's secret is compared with: guessing names costs what guessing secrets does.
        self._nobody = _written(secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_HASH_BYTES))

    async def matches(self, secret: str, stored: str | None) -> bool:
        """`stored` is None for a client that does not exist; the answer is then always no."""
        if self._pending >= _RUNNING + _WAITING:
            raise Unavailable("too many clients are logging in at the same time; try again")
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._threads, matches, secret, stored or self._nobody)
        finally:
            self._pending -= 1
        return right and stored is not None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
