"""Secrets of clients, and what a flood of logins may cost."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading

import pytest

from frazil.catalog.identity import hashing
from frazil.catalog.identity.clients import NewSecret
from frazil.catalog.identity.hashing import SecretChecker, hashed, matches, new_secret
from frazil.core.errors import InvalidConfig, Unavailable


def test_a_secret_matches_its_own_hash_only() -> None:
    secret = new_secret()
    stored = hashed(secret)
    assert secret not in stored
    assert hashed(secret) != stored
    assert matches(secret, stored)
    assert not matches(secret + "x", stored)
    assert not matches("", stored)
    assert not matches(new_secret(), stored)


def test_a_hash_is_read_with_the_parameters_it_was_made_with() -> None:
    digest = hashlib.scrypt(b"old", salt=b"salt" * 4, n=1024, r=8, p=2, dklen=32)
    stored = "$".join(
        (
            "scrypt",
            "1024",
            "8",
            "2",
            base64.b64encode(b"salt" * 4).decode(),
            base64.b64encode(digest).decode(),
        )
    )
    assert matches("old", stored)
    assert not matches("new", stored)


@pytest.mark.parametrize("stored", ["", "plain", "bcrypt$1$2$3$a$b", "scrypt$1$2$3$a"])
def test_a_hash_of_another_form_is_no_match_but_an_error(stored: str) -> None:
    with pytest.raises(InvalidConfig, match="unknown form"):
        matches("x", stored)


def test_a_secret_does_not_show_itself() -> None:
    assert "frz_" not in repr(NewSecret("etl", new_secret()))


async def test_a_client_that_does_not_exist_costs_what_a_wrong_secret_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def counted(secret: str, stored: str) -> bool:
        asked.append(stored.rpartition("$")[0].rpartition("$")[0])
        return matches(secret, stored)

    monkeypatch.setattr(hashing, "matches", counted)
    checker = SecretChecker()
    try:
        assert not await checker.matches("wrong", hashed("right"))
        assert not await checker.matches("wrong", None)
    finally:
        checker.close()
    # The same work: one hash each, with the same parameters.
    assert asked == ["scrypt$32768$8$1"] * 2


async def test_nobody_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "matches", lambda _secret, _stored: True)
    checker = SecretChecker()
    try:
        assert await checker.matches("x", "stored")
        assert not await checker.matches("x", None)
    finally:
        checker.close()


async def test_only_so_many_log_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hashes are made at a time, some wait, the rest is sent away; memory stays bounded."""
    release, both, lock = threading.Event(), threading.Event(), threading.Lock()
    running, most = 0, 0

    def slow(_secret: str, _stored: str) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                both.set()
        release.wait(120)
        with lock:
            running -= 1
        return True

    monkeypatch.setattr(hashing, "matches", slow)
    checker = SecretChecker()
    try:
        logins = [asyncio.create_task(checker.matches("x", "stored")) for _ in range(100)]
        # All have asked before this goes on, and two of them are at work.
        assert await asyncio.to_thread(both.wait, 60)
        refused = [task for task in logins if task.done()]
        assert len(refused) == 100 - 66
        assert all(isinstance(task.exception(), Unavailable) for task in refused)
        release.set()
        assert all(await asyncio.gather(*(task for task in logins if task not in refused)))
        assert await checker.matches("x", "stored")
    finally:
        release.set()
        checker.close()
    assert most == 2
