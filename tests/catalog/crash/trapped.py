"""A server that can be told to die, and a look at what it left behind."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from tests.catalog.concurrency.audit import Db, plain
from tests.catalog.concurrency.checker import path_of
from tests.catalog.concurrency.rest import Rest, table_path
from tests.catalog.concurrency.servers import ARGUMENTS, KEY

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.spawn import Command

_LAUNCHER = Path(__file__).with_name("launcher.py")


class TrappedServer(FrazilServer):
    """`traps` are the launcher's FRAZIL_TRAP_* settings; they may be changed between starts."""

    def __init__(
        self, directory: Path | None = None, *, database_url: str | None = None, **traps: float
    ) -> None:
        super().__init__(
            directory,
            database_url=database_url,
            arguments=ARGUMENTS,
            environment={"FRAZIL_ENCRYPTION_KEY": KEY},
        )
        self.traps: dict[str, float] = traps

    def command(self) -> Command:
        command = super().command()
        before, after = command.arguments[:1], command.arguments[3:]
        assert command.arguments[1:3] == ["-m", "frazil.cli"]
        traps = {f"FRAZIL_TRAP_{name.upper()}": str(value) for name, value in self.traps.items()}
        # Running a script puts its own directory on the path, not the current one.
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        return dataclasses.replace(
            command,
            arguments=[*before, str(_LAUNCHER), *after],
            environment={**command.environment, **traps, **path},
        )

    def wait_dead(self, seconds: float = 120) -> None:
        assert self._process is not None
        assert self._process.wait(seconds) == -9


def files_below(directory: Path) -> set[Path]:
    # Unlike `rglob`, it does not mind that a purge removes folders meanwhile.
    return {Path(folder, name) for folder, _, names in os.walk(directory) for name in names}


def state(db: Db) -> dict[str, Mapping[str, object]]:
    """Every row of the tables that a change may touch, without times."""
    return {
        name: {str(row[0]): tuple(row[1:]) for row in db.query(sql)}
        for name, sql in {
            "tabular": "SELECT tabular_id, namespace_id, name, metadata_location, metadata FROM tabular",
            "purge": "SELECT purge_id, name, metadata_location FROM purge",
            "job_table": "SELECT job_id, tabular_id, commits, last_snapshot_id FROM job_table",
            "idempotency": "SELECT idempotency_key, status FROM idempotency",
        }.items()
    }


def assert_rows_stand(db: Db, rest: Rest) -> None:
    """No dangling row: each has its metadata file, with the same bytes, and a load shows them."""
    rows = db.query(
        "SELECT n.path, t.name, t.metadata_location, t.metadata FROM tabular t "
        "LEFT JOIN namespace n ON n.namespace_id = t.namespace_id"
    )
    for namespace, name, metadata_location, stored in rows:
        assert namespace is not None
        metadata = plain(stored)
        assert path_of(metadata_location).read_bytes() == metadata
        answer = rest.of("GET", table_path(namespace, name))
        assert answer.status == 200
        assert b'"metadata":' + metadata + b"," in answer.body
