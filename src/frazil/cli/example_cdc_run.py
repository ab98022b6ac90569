"""What both forms of the change data example do: `frazil run`, killed on the way, and the comparison."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import click

from frazil.cli.demo_stream import arguments
from frazil.cli.example_cdc_lake import Copy, Read, differences
from frazil.cli.example_cdc_shop import Rows
from frazil.cli.remote import plain
from frazil.core.errors import ServiceError
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

#: Spark has to start, and after the last change a copy gets so long to catch up.
_PATIENCE_SECONDS = 300.0
_SHOWN = 10


@dataclass(frozen=True)
class Teller:
    #: With --json, standard output is for the document only.
    to_stderr: bool

    def say(self, text: str) -> None:
        click.echo(plain(text), err=self.to_stderr)


class Pipelines(Service):
    """`frazil run` on a file of pipelines; it is stopped by what Ctrl-C sends."""

    name: ClassVar[str] = "frazil-run"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    stop_seconds: ClassVar[float] = 60

    def __init__(self, directory: Path, text: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is where passwords go."""
        super().__init__(directory)
        self._environment = dict(environment or {})
        self._file = directory / "pipelines.yaml"
        self._file.write_text(text)

    def command(self) -> Command:
        # Who is killed cleans up nothing: what Spark leaves is to go with the directory.
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = os.environ | {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
        return Command(
            arguments("run", str(self._file), "--json"), environment | self._environment, self.directory
        )

    def healthy(self) -> bool:
        """It is not waited for: the first rows tell."""
        return True

    def require_running(self) -> None:
        if not self.running:
            raise ServiceError(f"frazil run ended by itself:\n{self.log_tail()}")


@dataclass
class Play:
    """Copies that follow their databases, watched."""

    pipelines: Pipelines
    copies: Sequence[Copy]
    read: Read
    teller: Teller
    kills: list[dict[str, object]] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        self.teller.say(f"{time.monotonic() - self._started:5.0f} s   {text}")

    def await_rows(self) -> None:
        """Return when every copy has all its tables, and other rows than it had."""
        before, deadline = self._tell(), time.monotonic() + _PATIENCE_SECONDS
        while any(self._is_old(copy, rows) for copy, rows in zip(self.copies, before, strict=True)):
            if time.monotonic() > deadline:
                raise ServiceError(f"not every copy got rows within {_PATIENCE_SECONDS:g} s")
            self.watch(1.0)

    def watch(self, seconds: float) -> None:
        """So long; both sides are told every second."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._tell()
            time.sleep(min(1.0, left))

    def kill(self, service: Service, title: str) -> None:
        """As a crash would, and then it is started again."""
        before = service.pid
        service.kill()
        self.say(f"{title} is killed (kill -9), and started again")
        service.start()
        self.kills.append({"process": service.name, "pid": before, "then": service.pid})

    def await_equal(self) -> None:
        """Return when nothing differs, or the copies had time enough."""
        self.say("nothing changes any more, what is on its way arrives")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        wanted = [copy.shop.rows() for copy in self.copies]
        while self._tell() != wanted and time.monotonic() < deadline:
            time.sleep(1.0)

    def _is_old(self, copy: Copy, before: Rows) -> bool:
        found = copy.rows(self.read)
        return found == before or not {table for table, _ in found} >= set(copy.shop.tables)

    def _tell(self) -> list[Rows]:
        """How much there is; what the copies have."""
        self.pipelines.require_running()
        found = [copy.rows(self.read) for copy in self.copies]
        self.say(
            "   ".join(
                f"{copy.shop.title} {copy.shop.count():6,} rows   Iceberg {len(rows):6,} rows"
                for copy, rows in zip(self.copies, found, strict=True)
            )
        )
        return found


def verdict(seed: int, play: Play, engines: Mapping[str, Read]) -> dict[str, Any]:
    """Every row of every copy as every engine reads it; the differences are told."""
    if "DuckDB" not in engines:
        play.teller.say(
            "DuckDB is left out: it or an extension is not installed, or the catalog wants a token."
        )
    databases = {copy.shop.name: _compared(copy, engines, play.teller) for copy in play.copies}
    equal = not any(lines for one in databases.values() for lines in one["wrong"].values())
    return {"seed": seed, "equal": equal, "kills": play.kills, "databases": databases}


def _compared(copy: Copy, engines: Mapping[str, Read], teller: Teller) -> dict[str, Any]:
    shop, wanted = copy.shop, copy.shop.rows()
    wrong = {name: differences(wanted, copy.rows(read)) for name, read in engines.items()}
    for name, lines in wrong.items():
        for line in lines[:_SHOWN]:
            teller.say(f"  {name}: {line}")
    made = f"{shop.changes:,} changes and {shop.rolled_back:,} rolled-back transactions"
    found = "; ".join(f"by {name}: {_found(lines)}" for name, lines in wrong.items())
    teller.say(f"{shop.title} has {len(wanted):,} rows after {made}. Read {found}.")
    return {
        "changes": shop.changes,
        "rolled_back": shop.rolled_back,
        "rows": len(wanted),
        "wrong": {name.lower(): lines for name, lines in wrong.items()},
    }


def _found(lines: Sequence[str]) -> str:
    return f"{len(lines)} differ" if lines else "all equal"
