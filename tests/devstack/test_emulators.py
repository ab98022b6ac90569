"""The emulators of Azure and Google, and how they are installed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from importlib import resources
from pathlib import Path

import pytest

from frazil.core.errors import ServiceError
from frazil.devstack import golang, npm
from frazil.devstack.azurite import Azurite
from frazil.devstack.gcs import GcsEmulator
from frazil.devstack.golang import GoProgram


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with an empty cache and nothing installed."""
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))


def test_every_npm_package_is_pinned_by_its_hash_and_has_no_address() -> None:
    text = resources.files("frazil.devstack").joinpath("locks", "azurite.json").read_text()
    packages = json.loads(text)["packages"]
    assert len(packages) > 100
    assert all(entry["integrity"].startswith("sha512-") for path, entry in packages.items() if path)
    assert "resolved" not in text
    assert "://" not in text


@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_named() -> None:
    with pytest.raises(ServiceError, match="node is not on this machine"):
        npm.node()
    with pytest.raises(ServiceError, match="npm is not on this machine, so azurite"):
        npm.packages("azurite")
    with pytest.raises(ServiceError, match="go is not on this machine, so thing"):
        golang.built(GoProgram("example.com/thing", "v1.0.0", "h1:x"))


def test_a_module_with_another_checksum_is_not_built(
    gcs_emulator: GcsEmulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`gcs_emulator` is asked for so that the module is on this machine, and with it Go."""
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))
    wrong = GoProgram("github.com/fsouza/fake-gcs-server", "v1.52.3", "h1:wrong")
    with pytest.raises(ServiceError, match="not h1:wrong; nothing was built"):
        golang.built(wrong)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def put(url: str, headers: dict[str, str]) -> int:
    request = urllib.request.Request(url, b"ice", headers, method="PUT")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_gcs_emulator_heeds_preconditions(gcs_emulator: GcsEmulator) -> None:
    url = f"{gcs_emulator.endpoint}/{gcs_emulator.create_bucket('devstack')}/a%20b%2Fc%252F"
    once = {"x-goog-if-generation-match": "0"}
    assert put(url, once) == 200
    assert put(url, once) == 412
    assert put(url, {}) == 200
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"ice"


def test_azurite_refuses_who_has_no_key(azurite: Azurite) -> None:
    container = azurite.create_container("devstack")
    assert azurite.create_container("devstack") == container
    assert put(f"{azurite.endpoint}/{container}/a", {"x-ms-blob-type": "BlockBlob"}) in (401, 403)
