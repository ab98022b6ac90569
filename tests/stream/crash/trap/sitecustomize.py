"""Put before all else in every Python process of a run under test: another death at a kill point.

CRASH_AT    the point, or several with commas between: `task.fetched,task.written`
CRASH_DO    `kill` this process, `kill-jvm` the JVM that it belongs to, `stop` this process (SIGSTOP), or
            `nap`: take a while
CRASH_ONCE  a directory; whoever makes the file named like the point there is the only one who does it
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _jvm() -> int:
    """The JVM above a worker, or below a driver."""
    at = os.getpid()
    while at > 1:
        found = _status(at)
        if found["Name"] == "java":
            return at
        at = int(found["PPid"])
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found = _status(int(entry.name))
            except OSError:
                continue
            if found["Name"] == "java" and int(found["PPid"]) == os.getpid():
                return int(entry.name)
    raise AssertionError("no JVM")


def _reach(name: str) -> None:
    if name not in os.environ["CRASH_AT"].split(","):
        return
    try:
        os.close(os.open(Path(os.environ["CRASH_ONCE"]) / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    match os.environ["CRASH_DO"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill-jvm":
            os.kill(_jvm(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "nap":
            time.sleep(3)
        case other:
            raise AssertionError(other)


if "CRASH_AT" in os.environ:
    from frazil.core import failpoints

    failpoints.reach = _reach
