"""What a Python worker loads to run the fused path: each of them pays for it, in memory and in time."""

from __future__ import annotations

import subprocess
import sys

_LOAD = """
import sys
import frazil.stream.decode.json, frazil.stream.kafka.feed, frazil.stream.kafka.native, frazil.stream.tasks
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_worker_does_not_load_what_it_does_not_need() -> None:
    found = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True)
    assert not {"pandas", "py4j", "google"} & set(found.stdout.split())
