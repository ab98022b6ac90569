"""`frazil key rotate`, on both databases, also when it is killed at any step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.concurrency.audit import Db, PostgresDb, SqliteDb
from tests.catalog.signing.conftest import storage
from tests.cli.rotator import STEPS
from tests.clients.support import call

from frazil.catalog.secrets import SecretBox, load_key, sole_rotation
from frazil.core.errors import Unavailable
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

KEYS = {name: digit * 64 for name, digit in (("first", "1"), ("second", "2"), ("third", "3"))}
#: The steps with the key file are the same for both databases.
CRASHES = [*(("sqlite", step) for step in STEPS), ("postgresql", "resealed"), ("postgresql", "committed")]
ROTATOR = Path(__file__).with_name("rotator.py")


@dataclass
class Installation:
    """A server with a warehouse on S3, and its database from the side."""

    server: FrazilServer
    db: Db
    url: str | None
    warehouse: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def key_file(self) -> Path:
        return self.server.data_dir / "secret.key"

    def rotate(self, trap: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        program = ["-m", "frazil.cli"] if trap is None else [str(ROTATOR)]
        command = [sys.executable, *program, "key", "rotate", "--data-dir", str(self.server.data_dir)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
        settings = self.environment | environment | ({"FRAZIL_TRAP": trap} if trap else {})
        if self.url is not None:
            settings["FRAZIL_DATABASE_URL"] = self.url
        return subprocess.run(
            command, check=False, env=clean | settings, capture_output=True, text=True, timeout=60
        )

    def opens(self) -> None:
        """The server can use the stored credential."""
        status, answer = call("GET", f"{self.server.catalog_uri}/v1/config?warehouse=sealed")
        assert status == 200, answer

    def sealed_with(self, key: bytes) -> bool:
        """Whether every stored secret, and the fingerprint, are of this key; never one without the other."""
        box = SecretBox(key)
        opened = [
            _opens(box, bytes(sealed), str(warehouse_id))
            for warehouse_id, sealed in self.db.query(
                "SELECT warehouse_id, storage_credential FROM warehouse WHERE storage_credential IS NOT NULL"
            )
        ]
        assert opened
        [(fingerprint,)] = self.db.query("SELECT secret_key FROM server")
        assert {fingerprint == box.fingerprint()} == set(opened)
        return opened[0]


def _opens(box: SecretBox, sealed: bytes, warehouse_id: str) -> bool:
    try:
        return b"secret-access-key" in box.open(sealed, warehouse_id.encode())
    except Unavailable:
        return False


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(
    request: pytest.FixtureRequest, tmp_path: Path, object_store: ObjectStore, postgres_url: Callable[[], str]
) -> Iterator[Installation]:
    url = postgres_url() if request.param == "postgresql" else None
    server = FrazilServer(tmp_path, database_url=url)
    db: Db = PostgresDb(url) if url else SqliteDb(server.data_dir / "catalog.db")
    found = Installation(server, db, url)
    with server:
        found.warehouse = create(found, object_store, "sealed")
        yield found


def create(installation: Installation, store: ObjectStore, name: str) -> str:
    status, answer = call(
        "POST", f"{installation.server.management_uri}/warehouse", warehouse(installation, store, name)
    )
    assert status == 201, answer
    return str(answer["id"])


def warehouse(installation: Installation, store: ObjectStore, name: str) -> Mapping[str, Any]:
    store.create_bucket("sealed")
    prefix = f"{installation.server.port}/{name}"
    return {"warehouse-name": name, **storage(store, **{"bucket": "sealed", "key-prefix": prefix})}


def test_a_key_file_is_rotated_and_the_old_key_opens_nothing(installation: Installation) -> None:
    old = load_key(installation.key_file)
    assert installation.sealed_with(old)
    installation.server.stop()
    done = installation.rotate()
    assert done.returncode == 0, done.stderr
    assert "Sealed 1 stored credential with the new key" in done.stdout
    new = load_key(installation.key_file)
    assert new != old
    assert new.hex() not in done.stdout + done.stderr
    assert installation.sealed_with(new)
    assert not installation.sealed_with(old)
    assert [path.name for path in installation.server.data_dir.glob("*secret.key*")] == ["secret.key"]
    assert installation.key_file.stat().st_mode & 0o777 == 0o600
    installation.server.start()
    installation.opens()


@pytest.mark.parametrize(("installation", "step"), CRASHES, indirect=["installation"])
def test_a_rotation_that_is_killed_is_finished_by_the_next(installation: Installation, step: str) -> None:
    old = load_key(installation.key_file)
    installation.server.stop()
    assert installation.rotate(trap=step).returncode == -signal.SIGKILL
    committed = step in ("committed", "replaced")
    assert installation.sealed_with(old) is not committed
    # Whichever key is in force, the server finds it.
    installation.server.start()
    installation.opens()
    installation.server.stop()
    done = installation.rotate()
    assert done.returncode == 0, done.stderr
    new = load_key(installation.key_file)
    assert new != old
    assert installation.sealed_with(new)
    assert not (installation.server.data_dir / "secret.key.new").exists()
    installation.server.start()
    installation.opens()


def test_keys_from_the_environment(installation: Installation) -> None:
    """From the key file to a given key, and from that to another one; a repeated command does nothing."""
    installation.server.stop()
    before = installation.key_file.read_bytes()
    first = installation.rotate(FRAZIL_NEW_ENCRYPTION_KEY=KEYS["first"])
    assert first.returncode == 0, first.stderr
    assert installation.key_file.read_bytes() == before
    installation.environment = {"FRAZIL_ENCRYPTION_KEY": KEYS["first"]}
    assert "give the new one in FRAZIL_NEW_ENCRYPTION_KEY" in installation.rotate().stderr
    for said in ("Sealed 1 stored credential", "was in force already"):
        done = installation.rotate(FRAZIL_NEW_ENCRYPTION_KEY=KEYS["second"])
        assert (done.returncode, said in done.stdout) == (0, True), done
        assert not any(key in done.stdout + done.stderr for key in KEYS.values())
        assert installation.sealed_with(bytes.fromhex(KEYS["second"]))
    refused = installation.rotate(FRAZIL_NEW_ENCRYPTION_KEY=KEYS["third"])
    assert refused.returncode == 1
    assert "nothing was changed" in refused.stderr
    malformed = installation.rotate(FRAZIL_NEW_ENCRYPTION_KEY=KEYS["third"][1:])
    assert malformed.returncode == 1
    assert KEYS["third"][1:] not in malformed.stderr
    assert installation.sealed_with(bytes.fromhex(KEYS["second"]))


def test_a_server_that_runs_goes_on_and_stores_nothing_with_the_old_key(
    installation: Installation, object_store: ObjectStore
) -> None:
    server = installation.server
    installation.opens()
    assert installation.rotate().returncode == 0
    new = load_key(installation.key_file)
    installation.opens()
    management = f"{server.management_uri}/warehouse"
    status, answer = call("POST", management, warehouse(installation, object_store, "late"))
    assert (status, "rotated" in str(answer)) == (503, True), answer
    credential = storage(object_store)["storage-credential"]
    path = f"{management}/{installation.warehouse}/storage-credential"
    assert call("POST", path, {"new-storage-credential": credential})[0] == 503
    assert installation.sealed_with(new)
    # A changed row is read again, and cannot be opened: an error that says what to do.
    call("POST", f"{management}/{installation.warehouse}/managed-by", {"managed-by": "self-managed"})
    status, answer = call("GET", f"{server.catalog_uri}/v1/config?warehouse=sealed")
    assert (status, "key rotate" in str(answer)) == (503, True), answer
    server.restart()
    installation.opens()
    create(installation, object_store, "late")
    assert installation.sealed_with(new)


@pytest.mark.parametrize("installation", ["sqlite"], indirect=True)
def test_rotations_at_the_same_time(installation: Installation) -> None:
    """One rotates, and the others say that it does; the key in force is the one in the file."""
    installation.server.stop()
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda _: installation.rotate(), range(4)))
    assert any(end.returncode == 0 for end in ends)
    for end in ends:
        assert end.returncode == 0 or "another process is rotating" in end.stderr, end.stderr
    assert installation.sealed_with(load_key(installation.key_file))
    assert not (installation.server.data_dir / "secret.key.new").exists()
    with sole_rotation(installation.server.data_dir):
        refused = installation.rotate()
    assert (refused.returncode, "nothing was changed" in refused.stderr) == (1, True), refused


def test_there_must_be_a_key_to_rotate(tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
    command = [sys.executable, "-m", "frazil.cli", "key", "rotate", "--data-dir", str(tmp_path / "none")]
    done = subprocess.run(command, check=False, env=clean, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "there is no key to rotate" in done.stderr
    assert not (tmp_path / "none").exists()
