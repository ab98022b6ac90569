"""Programs from npm packages, installed once into the cache directory by the machine's own npm.

A program is npm's lock file for it, in `locks/<name>.json`: every package with its hash and no address.
`python tools/lock_npm.py` writes it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError
from frazil.devstack.debian import installing_allowed


def node() -> str:
    """The machine's Node.js."""
    program = shutil.which("node")
    if program is None:
        raise ServiceError("node is not on this machine; install Node.js 20 or newer")
    return program


def packages(name: str) -> Path:
    """The `node_modules` of a locked program."""
    lock = resources.files("frazil.devstack").joinpath("locks", f"{name}.json").read_text()
    directory = cache_dir("npm", f"{name}-{hashlib.sha256(lock.encode()).hexdigest()[:16]}")
    complete = directory / ".complete"
    if not complete.is_file():
        with exclusive(directory.parent / f"{directory.name}.lock"):
            if not complete.is_file():
                _install(name, lock, directory)
                complete.touch()
    return directory / "node_modules"


def manifest(name: str, dependencies: Mapping[str, str]) -> str:
    """The package.json that a lock file goes with."""
    document = {"name": name, "version": "0.0.0", "private": True, "dependencies": dependencies}
    return json.dumps(document, indent=1)


def _install(name: str, lock: str, directory: Path) -> None:
    program = shutil.which("npm")
    if program is None:
        raise ServiceError(
            f"npm is not on this machine, so {name} cannot be installed; install Node.js with npm"
        )
    if not installing_allowed():
        raise ServiceError(f"{name} is not in {directory} (FRAZIL_DEVSTACK_INSTALL=0 forbids fetching it)")
    progress(f"installing the npm packages of {name} to {directory} (once)")
    dependencies = json.loads(lock)["packages"][""]["dependencies"]
    (directory / "package.json").write_text(manifest(name, dependencies))
    (directory / "package-lock.json").write_text(lock)
    command = [program, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ServiceError(f"npm could not install {name}:\n{answer.stderr.strip()[-2000:]}")
