"""Where downloads are kept between runs, and who may change them at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """`$FRAZIL_CACHE_DIR`, else `$XDG_CACHE_HOME/frazil`, else `~/.cache/frazil`; made if missing."""
    if chosen := os.environ.get("FRAZIL_CACHE_DIR"):
        root = Path(chosen)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frazil"
    path = root.expanduser().absolute().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; other processes wait. A holder that dies releases it."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def progress(message: str) -> None:
    """One line for the person who waits."""
    print(f"frazil: {message}", file=sys.stderr, flush=True)
