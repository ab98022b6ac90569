"""Folders in the temporary directory that are of use to one process alone, and go with it."""

from __future__ import annotations

import atexit
import fcntl
import os
import platform
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

#: By the machine: of a directory that several have in common, locks of others may not be seen here.
_LOCK = f"lock-{platform.node()}"
#: Never closed: the kernel lets go of the locks when the process ends, in whatever way.
_held: list[int] = []


def own_folder(prefix: str) -> Path:
    """A new one, which is removed in the end. Those of processes that were killed go now."""
    _sweep(prefix)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    # Where there are no locks it stays if the process is killed.
    with suppress(OSError):
        held = os.open(made / "new", os.O_CREAT | os.O_WRONLY, 0o600)
        _held.append(held)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Only now has it the name: whoever can take a lock of that name took it from nobody who lives.
        (made / "new").rename(made / _LOCK)
    return made


def _sweep(prefix: str) -> None:
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if (
                    entry.name.startswith(prefix)
                    and entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == os.getuid()
                ):
                    _remove_dead(Path(entry.path))


def _remove_dead(folder: Path) -> None:
    """OSError: its process lives, or nothing tells."""
    lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
