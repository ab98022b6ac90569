"""A process that follows a database, from outside."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.stream.support import wait_until

from frazil.devstack.postgres import Postgres
from frazil.stream.postgres import PostgresSource

_PROGRAM = Path(__file__).with_name("follower.py")


class Refused(Exception):
    """An error of frazil in the other process: its class and what it said."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Remote:
    """The other end of a follower."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, name: str, **given: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([name, given]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "the follower died"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["answer"]

    def open(self, source: PostgresSource, *, whole: bool = False) -> None:
        """`whole`: what is taken ends where transactions end."""
        self.ask("open", source=base64.b64encode(pickle.dumps(source)).decode(), whole=whole)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


class Shop:
    """A database of its own, and a source on it."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name
        server.create_database(name)

    def run(self, sql: str) -> str:
        return self.server.execute(sql, self.name)

    def source(self, *tables: str, **settings: Any) -> PostgresSource:
        user, password = self.server.user, self.server.url.split("@")[0].rpartition(":")[2]
        given: dict[str, Any] = {
            "name": self.name,
            "host": "127.0.0.1",
            "port": self.server.port,
            "database": self.name,
            "user": user,
            "password": password,
            "poll_seconds": 0.2,
        }
        return PostgresSource(tables=tables, **given | settings)

    def confirmed(self) -> int:
        query = "SELECT pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint FROM pg_replication_slots"
        return int(self.run(f"{query} WHERE slot_name = 'frazil_{self.name}'"))

    def moves_past(self, at: int) -> bool:
        """Whether the slot gets beyond this before long."""
        wait_until(lambda: self.confirmed() > at, f"the slot beyond {at}")
        return True

    def let_go(self) -> None:
        """Until the server has noticed that who read the slot is dead."""
        query = "SELECT count(*) FROM pg_replication_slots WHERE active"
        slot = f"slot_name = 'frazil_{self.name}'"
        wait_until(lambda: self.run(f"{query} AND {slot}").strip() == "0", "the slot that nobody reads")

    def log_end(self) -> int:
        return int(self.run("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))
