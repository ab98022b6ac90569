"""The lock files: names, versions and hashes of everything that is installed, and no address.

python tools/lock.py write     resolve again (needs the package index and `uv`)
python tools/lock.py check     offline: do the locks still belong to pyproject.toml?
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "# for pyproject.toml dependencies "
LOCKS: dict[str, list[str]] = {
    "build": ["--group", "build"],
    "runtime": ["pyproject.toml"],
    "dev": ["pyproject.toml", "--all-extras", "--group", "build", "--group", "test", "--group", "lint"],
}
PIN = re.compile(r"^[a-z0-9][a-z0-9.-]*==\S+")


def fingerprint() -> str:
    """A digest of everything in pyproject.toml that a lock depends on."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = data["project"]
    inputs = [
        project["requires-python"],
        project["dependencies"],
        project["optional-dependencies"],
        data["dependency-groups"],
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def write(arguments: list[str]) -> None:
    # Files that happen to lie on this machine must not decide what everybody installs.
    environment = {k: v for k, v in os.environ.items() if k not in {"PIP_FIND_LINKS", "UV_FIND_LINKS"}}
    for name, sources in LOCKS.items():
        path = ROOT / "locks" / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
        command += [
            "--no-annotate",
            "--no-emit-index-url",
            "--no-emit-find-links",
            "--python-version",
            "3.11",
        ]
        command += [*sources, *arguments, "--output-file", str(path)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        path.write_text(f"{STAMP}{fingerprint()}\n{path.read_text()}")


def problems(name: str) -> list[str]:
    path = ROOT / "locks" / f"{name}.txt"
    if not path.is_file():
        return [f"locks/{name}.txt is missing"]
    text = path.read_text()
    found = []
    if not text.startswith(f"{STAMP}{fingerprint()}\n"):
        found.append(f"locks/{name}.txt was not made from this pyproject.toml")
    if "://" in text or "--index" in text or "--find-links" in text:
        found.append(f"locks/{name}.txt names a download address")
    for entry in re.split(r"\n(?=\S)", text.strip())[1:]:
        if not PIN.match(entry):
            found.append(f"locks/{name}.txt: not a pinned package: {entry.splitlines()[0]}")
        elif "--hash=sha256:" not in entry:
            found.append(f"locks/{name}.txt: no hash: {entry.splitlines()[0]}")
    return found


def main(arguments: list[str]) -> int:
    match arguments:
        case ["write", *rest]:
            write(rest)
            return 0
        case ["check"]:
            found = [problem for name in LOCKS for problem in problems(name)]
            for problem in found:
                print(problem, file=sys.stderr)
            if found:
                print("Run `make lock` and commit the result.", file=sys.stderr)
            return 1 if found else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
