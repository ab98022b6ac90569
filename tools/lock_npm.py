"""Write src/frazil/devstack/locks/azurite.json: every npm package that Azurite needs, with its hash.

python tools/lock_npm.py

It is npm's own lock file without addresses: a package comes from the registry of whoever installs it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from frazil.devstack.npm import manifest

LOCKS = Path(__file__).resolve().parent.parent / "src" / "frazil" / "devstack" / "locks"
AZURITE = {"azurite": "3.37.0"}
_KEPT = ("version", "integrity", "dependencies", "optionalDependencies", "optional", "bin", "name")


def main() -> None:
    """Let npm resolve and keep what installing needs."""
    with tempfile.TemporaryDirectory(prefix="frazil-npm-") as scratch:
        Path(scratch, "package.json").write_text(manifest("azurite", AZURITE))
        command = ["npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=scratch, check=True)
        lock = json.loads(Path(scratch, "package-lock.json").read_text())
    packages = {
        path: {name: value for name, value in entry.items() if name in _KEPT}
        for path, entry in lock["packages"].items()
    }
    document = {name: lock[name] for name in ("name", "version", "lockfileVersion", "requires")}
    path = LOCKS / "azurite.json"
    path.write_text(json.dumps({**document, "packages": packages}, indent=1) + "\n")
    print(f"{path}: {len(packages) - 1} packages")


if __name__ == "__main__":
    main()
