"""Secrets at rest."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.catalog.secrets import KEY_BYTES, SecretBox, load_or_create_key
from frazil.core.errors import FrazilError, InvalidConfig, Unavailable

KEY = bytes(range(KEY_BYTES))


def test_what_is_sealed_opens_again() -> None:
    box = SecretBox(KEY)
    sealed = box.seal(b"hunter2", b"row 1")
    assert b"hunter2" not in sealed
    assert box.open(sealed, b"row 1") == b"hunter2"
    assert box.seal(b"hunter2", b"row 1") != sealed


def test_a_sealed_value_is_tied_to_row_key_and_version() -> None:
    box = SecretBox(KEY)
    sealed = box.seal(b"hunter2", b"row 1")
    with pytest.raises(Unavailable, match="another row"):
        box.open(sealed, b"row 2")
    with pytest.raises(Unavailable, match="another key"):
        SecretBox(b"x" * KEY_BYTES).open(sealed, b"row 1")
    with pytest.raises(InvalidConfig, match="unknown version"):
        box.open(b"\x02" + sealed[1:], b"row 1")
    for damaged in (b"", sealed[:1], sealed[:10], sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1])):
        with pytest.raises(FrazilError):
            box.open(damaged, b"row 1")


def test_the_fingerprint_names_the_key_and_not_its_content() -> None:
    assert SecretBox(KEY).fingerprint() == SecretBox(KEY).fingerprint()
    assert SecretBox(KEY).fingerprint() != SecretBox(b"x" * KEY_BYTES).fingerprint()
    assert KEY.hex()[:8] not in repr(SecretBox(KEY))


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="32 bytes"):
        SecretBox(b"short")


def test_the_key_file_is_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "secret.key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: load_or_create_key(path), range(16)))
    assert len(keys) == 1
    assert len(keys.pop()) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["secret.key"]


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    load_or_create_key(path)
    path.chmod(0o644)
    with pytest.raises(InvalidConfig, match="chmod 600"):
        load_or_create_key(path)


@pytest.mark.parametrize("content", ["", "zz", "00" * 31, "00" * 33])
def test_a_key_file_with_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InvalidConfig, match="does not hold a key"):
        load_or_create_key(path)
