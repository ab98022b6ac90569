"""A table of MySQL that exists only as its rows and the change events of Debezium's connector for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.stream.cdc.changing import ChangingTable

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_MINUTE = 60_000


@dataclass
class MySqlTable(ChangingTable):
    """As a server with `binlog_row_image=FULL` logs it. Its clock tells seconds."""

    tells_before: ClassVar[bool] = True
    #: What GTIDs begin with; None: the server gives none.
    gtids: str | None = SERVER
    server_id: int = 223344
    file: int = 3
    pos: int = 157
    row: int = 0
    #: The last transaction.
    number: int = 20
    _within: bool = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done within is committed together."""
        self._begin()
        self._within = True
        yield
        self._within = False

    def insert(self, *rows: dict[str, Any]) -> None:
        """By one statement: its rows are in one event of the binary log."""
        for place, row in enumerate(rows):
            self._put(row)
            if place:
                self.row += 1
            self._send("c", row, row, moves=not place)

    def rotate(self) -> None:
        """The server begins another file."""
        self.file += 1
        self.pos = 157

    def reset(self) -> None:
        """As by RESET BINARY LOGS AND GTIDS, a while later."""
        self.file, self.pos, self.number = 1, 157, 0
        self.ts_ms += _MINUTE

    def _begin(self) -> None:
        self.number += 1
        self.pos += 154

    def _move(self, op: str) -> None:
        if op == "r":
            return
        if not self._within:
            self._begin()
        self.pos += 62
        self.row = 0

    def source(self, op: str) -> dict[str, Any]:
        second = self.ts_ms // 1000 * 1000
        read = op == "r"
        return {
            "version": "3.6.3.Final",
            "connector": "mysql",
            "name": "dbserver1",
            "ts_ms": second,
            "snapshot": "true" if read else "false",
            "db": "inventory",
            "sequence": None,
            "ts_us": second * 1000,
            "ts_ns": second * 1_000_000,
            "table": "customers",
            "server_id": 0 if read else self.server_id,
            "gtid": None if read or self.gtids is None else f"{self.gtids}:{self.number}",
            "file": f"binlog.{self.file:06}",
            "pos": self.pos,
            "row": self.row,
            "thread": None if read else 7,
            "query": None,
        }
