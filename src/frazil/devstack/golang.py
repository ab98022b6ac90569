"""Programs from Go modules, built once into the cache directory by the machine's own Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError
from frazil.devstack.debian import installing_allowed


@dataclass(frozen=True)
class GoProgram:
    """A command that is the root of a module, with the module's checksum as `go.sum` has it."""

    module: str
    version: str
    checksum: str

    @property
    def name(self) -> str:
        return self.module.rpartition("/")[2]


def built(program: GoProgram) -> Path:
    """The program's file."""
    directory = cache_dir("go", f"{program.name}-{program.version}")
    path = directory / program.name
    if not path.is_file():
        with exclusive(directory.parent / f"{directory.name}.lock"):
            if not path.is_file():
                _build(program, directory)
    return path


def _build(program: GoProgram, directory: Path) -> None:
    if shutil.which("go") is None:
        raise ServiceError(f"go is not on this machine, so {program.name} cannot be built; install Go")
    if not installing_allowed():
        raise ServiceError(
            f"{program.name} is not in {directory} (FRAZIL_DEVSTACK_INSTALL=0 forbids building it)"
        )
    progress(f"building {program.name} {program.version} in {directory} (once, some minutes)")
    target = f"{program.module}@{program.version}"
    with tempfile.TemporaryDirectory(prefix="frazil-go-", dir=directory) as scratch:
        found = json.loads(_go(["mod", "download", "-json", target], scratch))["Sum"]
        if found != program.checksum:
            raise ServiceError(
                f"{target} has the checksum {found}, not {program.checksum}; nothing was built"
            )
        _go(["install", "-trimpath", target], scratch)
        # Under its name only when it is whole.
        Path(scratch, program.name).rename(directory / program.name)


def _go(arguments: list[str], scratch: str) -> str:
    environment = os.environ | {"GOBIN": scratch, "GO111MODULE": "on"}
    answer = subprocess.run(
        ["go", *arguments], cwd=scratch, env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise ServiceError(f"go {arguments[0]} failed:\n{answer.stderr.strip()[-2000:]}")
    return answer.stdout
