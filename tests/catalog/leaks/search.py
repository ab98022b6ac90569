"""Finds a secret in bytes, in the forms in which programs write secrets down by mistake."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus


def forms(secret: str) -> dict[str, bytes]:
    """The secret as it may appear, by the name of the form."""
    plain = secret.encode()
    found = {
        "plain": plain,
        "hex": plain.hex().encode(),
        "HEX": plain.hex().upper().encode(),
        "percent": quote(secret, safe="").encode(),
        "form": quote_plus(secret).encode(),
        "json": json.dumps(secret)[1:-1].encode(),
        "utf-16": secret.encode("utf-16-le"),
        "reversed": plain[::-1],
    }
    # Inside longer base64 a value has one of three spellings; their first and last characters hang together
    # with what stands beside it.
    for offset in range(3):
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            text = encode(b"\0" * offset + plain).rstrip(b"=")
            found[f"{name}+{offset}"] = text[(0, 2, 3)[offset] : -1]
    return found


def leaks(data: bytes, secrets: dict[str, str], where: str) -> Iterator[str]:
    """A line for every secret that `data` holds; the lines do not repeat it."""
    for name, secret in secrets.items():
        for form, spelled in forms(secret).items():
            if spelled in data:
                yield f"{name} in {form} form in {where}"


def files_below(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(directory)), path.read_bytes()
