"""The tests in parts side by side, each with services of its own: `tools/test_parts.py [ARGS]`.

The arguments go to all. What the first part prints is seen at once, the others' when they have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

TESTS = Path("tests")
STREAM = TESTS / "stream"
#: They take about the same time, and so do all the others: much of it is waiting for services to start, and
#: for processes to be killed.
FIRST = (
    *(STREAM / name for name in ("crash", "cdc", "config", "decode", "kafka", "postgres", "stateful")),
    TESTS / "lake",
)
SECOND = (STREAM, TESTS / "hot", TESTS / "docs")
#: pytest's code where nothing was selected, as by `-k`.
_NOTHING = 5


def parts() -> list[list[Path]]:
    second = [path for place in SECOND for path in _with_tests(place) if path not in FIRST]
    others = [path for path in _with_tests(TESTS) if path not in (*FIRST, *SECOND)]
    return [list(FIRST), second, others]


def _with_tests(place: Path) -> list[Path]:
    folders = (path for path in place.iterdir() if path.is_dir() and path.name != "__pycache__")
    return sorted([*folders, *place.glob("test_*.py")])


def main() -> int:
    commands = [[sys.executable, "-m", "pytest", *sys.argv[1:], *map(str, paths)] for paths in parts()]
    with ExitStack() as ending:
        shown: list[IO[bytes]] = []
        running = []
        for command in commands[1:]:
            shown.append(ending.enter_context(tempfile.TemporaryFile()))
            running.append(subprocess.Popen(command, stdout=shown[-1], stderr=subprocess.STDOUT))
            ending.callback(running[-1].terminate)
        codes = [subprocess.run(commands[0], check=False).returncode]
        for process, output in zip(running, shown, strict=True):
            codes.append(process.wait())
            output.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(output.read())
    bad = [code for code in codes if code not in (0, _NOTHING)]
    return max(bad, default=_NOTHING if set(codes) == {_NOTHING} else 0)


if __name__ == "__main__":
    sys.exit(main())
