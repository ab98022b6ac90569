"""Where the crash tests kill the process: `FRAZIL_FAILPOINT=commit.before`, or `…@3` for the third time.

A process that is told nothing pays one comparison.
"""

from __future__ import annotations

import os
import signal

_WANTED, _, _NTH = os.environ.get("FRAZIL_FAILPOINT", "").partition("@")
_reached = 0


def reach(name: str) -> None:
    """Die here by SIGKILL, if this is the place."""
    global _reached  # noqa: PLW0603 - a counter of the process
    if name == _WANTED:
        _reached += 1
        if _reached >= int(_NTH or 1):
            os.kill(os.getpid(), signal.SIGKILL)
