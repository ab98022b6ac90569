"""`frazil` as a child process, with no setting of the caller's own."""

from __future__ import annotations

import os
import subprocess
import sys


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")}


def frazil(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "frazil.cli", *arguments],
        env={**clean_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
