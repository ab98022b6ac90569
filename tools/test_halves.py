"""`make test` in two halves side by side, each with services of its own: `tools/test_halves.py [ARGS]`.

The arguments go to both. What the first half prints is seen at once, the second half's when that has ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path("tests")
#: Takes about as long as all the others, with what is added and without what is lent to them.
FIRST = TESTS / "stream"
ADDED = TESTS / "hot"
LENT = ("stateful",)
#: pytest's code where nothing was selected, as by `-k`.
_NOTHING = 5


def halves() -> tuple[list[str], list[str]]:
    first = [str(path) for path in _with_tests(FIRST) if path.name not in LENT]
    others = [str(path) for path in _with_tests(TESTS) if path not in (FIRST, ADDED)]
    return [*first, str(ADDED)], others + [str(FIRST / name) for name in LENT]


def _with_tests(place: Path) -> list[Path]:
    folders = (path for path in place.iterdir() if path.is_dir() and path.name != "__pycache__")
    return sorted([*folders, *place.glob("test_*.py")])


def main() -> int:
    first, second = ([sys.executable, "-m", "pytest", *sys.argv[1:], *paths] for paths in halves())
    with tempfile.TemporaryFile() as shown:
        other = subprocess.Popen(second, stdout=shown, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.run(first, check=False).returncode, other.wait()]
        finally:
            other.terminate()
        shown.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(shown.read())
    good = [code for code in codes if code not in (0, _NOTHING)]
    return max(good, default=_NOTHING if set(codes) == {_NOTHING} else 0)


if __name__ == "__main__":
    sys.exit(main())
