"""Programs from Debian packages, unpacked into the cache: nothing on the machine is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError

# A server that refuses to run as root is started as another user, who cannot read root's home.
_ROOT_CACHE = Path("/var/cache/frazil")


def installing_allowed() -> bool:
    """Whether programs may be fetched here: `FRAZIL_DEVSTACK_INSTALL=0` forbids it."""
    return os.environ.get("FRAZIL_DEVSTACK_INSTALL", "1") != "0"


def unpacked(package: str) -> Path:
    """A directory that holds `package` and what it needs beyond what is installed."""
    directory = _base() / package
    complete = directory / ".complete"
    if complete.is_file():
        return directory
    if not installing_allowed():
        raise ServiceError(f"{_missing(package)} (FRAZIL_DEVSTACK_INSTALL=0 forbids fetching it here)")
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise ServiceError(_missing(package))
    with exclusive(directory.parent / f"{package}.lock"):
        if not complete.is_file():
            progress(f"fetching the Debian package {package} into {directory} (once)")
            _unpack(package, directory)
            complete.touch()
    return directory


def _base() -> Path:
    if os.geteuid() != 0 or "FRAZIL_CACHE_DIR" in os.environ:
        return cache_dir("debian")
    path = _ROOT_CACHE / "debian"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _missing(package: str) -> str:
    return f"{package} is not on this machine; install it (Debian, Ubuntu: sudo apt-get install {package})"


def _unpack(package: str, directory: Path) -> None:
    lists, archives = directory / "apt" / "lists", directory / "apt" / "archives"
    for path in (lists / "partial", archives / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    # The system's own lists and locks stay untouched, so this needs no root.
    apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache::archives={archives}"]
    apt += [
        "-o",
        f"Dir::Cache::pkgcache={lists}/pkgcache.bin",
        "-o",
        f"Dir::Cache::srcpkgcache={lists}/srcpkgcache.bin",
    ]
    apt += ["-o", "Debug::NoLocking=true"]
    if os.geteuid() == 0:
        apt += ["-o", "APT::Sandbox::User=root"]
    _run([*apt, "update"], package)
    _run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", package], package)
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(directory)], package)
    shutil.rmtree(directory / "apt")


def _run(command: list[str], package: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if answer.returncode != 0:
        raise ServiceError(f"{_missing(package)}; fetching it here failed:\n{answer.stderr.strip()[-2000:]}")
