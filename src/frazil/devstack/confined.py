"""A program that sees only some folders: `python -m frazil.devstack.confined READ WRITE COMMAND…`.

READ and WRITE are folders with `:` between them; all else on the disks does not open (Linux's Landlock).
Children inherit it and nobody can take it back, so that machines without a shared disk can be had on one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterable, Sequence

# <linux/landlock.h>; the system calls have the same numbers on all architectures.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
#: Version 1: files and folders, all thirteen rights.
_ALL = (1 << 13) - 1


class _Rules(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _Rule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def can_confine() -> bool:
    """Whether this kernel has Landlock, switched on."""
    return platform.system() == "Linux" and _libc().syscall(_CREATE, None, 0, _VERSION_FLAG) >= 1


def confined(command: Sequence[str], *, read: Iterable[str], write: Iterable[str]) -> list[str]:
    """The command line that runs `command` with these folders and no others."""
    start = [sys.executable, "-I", "-S", __file__]
    return [*start, ":".join(map(str, read)), ":".join(map(str, write)), *command]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused")
    return result


def _confine(read: Sequence[str], write: Sequence[str]) -> None:
    rules = _call(_CREATE, ctypes.byref(_Rules(_ALL)), ctypes.sizeof(_Rules), 0)
    for folders, allowed in ((read, _READ), (write, _ALL)):
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                _call(_ADD, rules, _PATH_BENEATH, ctypes.byref(_Rule(allowed, handle)), 0)
                os.close(handle)
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl refused")
    _call(_RESTRICT, rules, 0)
    os.close(rules)


if __name__ == "__main__":
    _confine(sys.argv[1].split(":"), sys.argv[2].split(":"))
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 - no shell is wanted
