"""`frazil` in the process of the tests."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import pytest

from frazil.cli import main

#: Variables that would send a command to the server of whoever runs the tests.
_REMOTE = ("LAKEKEEPER", "TOKEN")


@dataclass(frozen=True)
class Run:
    returncode: int
    stdout: str
    stderr: str


class Command:
    """`frazil` in this process, for what ends before a server would start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in os.environ:
            if name.startswith(("FRAZIL_", "OAUTH_", "AWS_")) or name in _REMOTE:
                monkeypatch.delenv(name)

    def __call__(self, *arguments: str, environment: dict[str, str] | None = None) -> Run:
        for name, value in (environment or {}).items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setattr(sys, "argv", ["frazil", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = self._capsys.readouterr()
        return Run(int(ended.value.code or 0), shown.out, shown.err)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)
