"""Folders that one process has: they go with it, and if it is killed, with the next one's coming."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from frazil.lake.own_folder import own_folder

_PROGRAM = """
import sys
from frazil.lake.own_folder import own_folder
made = own_folder("tried-")
(made / "some").mkdir()
(made / "some" / "file").write_text("x")
print(made, flush=True)
sys.stdin.read()
"""


@contextmanager
def somebody(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process, and the folder that it made."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(temporary), "PYTHONPATH": ":".join(sys.path)},
    ) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_folders_of_the_dead_go_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unknown, elsewhere = tmp_path / "tried-unknown", tmp_path / "other"
    unknown.mkdir()
    elsewhere.mkdir()
    (tmp_path / "tried-link").symlink_to(elsewhere)
    with somebody(tmp_path) as (killed, left), somebody(tmp_path) as (living, kept):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "some" / "file").exists()
        own = own_folder("tried-")
        assert not left.exists()
        # Nobody says whose it is; not ours by its name; of a process that is there.
        assert unknown.exists()
        assert elsewhere.exists()
        assert (kept / "some" / "file").exists()
        own_folder("tried-")
        assert own.exists()
        living.communicate("")
        assert not kept.exists()
