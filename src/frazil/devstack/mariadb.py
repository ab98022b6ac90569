"""A MariaDB server of our own, with the row binlog and GTIDs that change data capture reads."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from frazil.core.errors import ServiceError
from frazil.devstack import debian
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

_USER = "frazil"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SERVER, _CLIENT = "mariadb-server-core", "mariadb-client-core"
# What `mariadb-install-db` feeds to the server, without the help texts and the sys schema.
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
#: What Debezium asks for.
_CAPTURE = "SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT"


@dataclass(frozen=True)
class Installation:
    """Where server and client are, and the environment they need to run there."""

    server: Path
    client: Path
    #: Of the server: its `share/mysql` has messages, character sets and the system tables.
    base: Path
    environment: dict[str, str]


def find_installation() -> Installation:
    """MariaDB on the machine, else one unpacked from Debian's packages."""
    environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C", "LC_ALL": "C", "TZ": "UTC"}
    server = shutil.which("mariadbd", path=f"{environment['PATH']}:/usr/sbin")
    client = shutil.which("mariadb")
    if server and client:
        program = Path(server).resolve()
        return Installation(program, Path(client), program.parent.parent, environment)
    roots = [debian.unpacked(_SERVER), debian.unpacked(_CLIENT)]
    libraries = sorted({str(path.parent) for root in roots for path in root.glob("usr/lib/**/*.so*")})
    environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    return Installation(
        roots[0] / "usr/sbin/mariadbd", roots[1] / "usr/bin/mariadb", roots[0] / "usr", environment
    )


class MariaDb(Service):
    """A server on the loopback interface with a random password for its administrator.

    >>> with MariaDb() as server:  # doctest: +SKIP
    ...     server.create_database("shop")
    ...     password = server.create_replication_user("debezium")
    """

    name: ClassVar[str] = "mariadb"
    stop_seconds: ClassVar[float] = 30
    user: ClassVar[str] = _USER

    def __init__(self, directory: Path | None = None, *, fsync: bool = True, server_id: int = 7) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._fsync = fsync
        self._server_id = server_id
        self._installation = find_installation()
        self._data = self.directory / "data"
        self.password = self._initialize()

    def command(self) -> Command:
        binlog = [f"--server-id={self._server_id}", f"--log-bin={self._data / 'binlog'}"]
        binlog += ["--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL"]
        network = [f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        network += [f"--socket={self._data / 's'}", f"--pid-file={self._data / 'pid'}"]
        text = ["--character-set-server=utf8mb4", "--default-time-zone=+00:00"]
        # Without it the system still has what was committed, so a kill loses nothing.
        lazy = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-flush-method=nosync"]
        return Command(
            [
                *self._server(),
                *network,
                *binlog,
                *text,
                "--gtid-strict-mode=1",
                "--innodb-buffer-pool-size=64M",
                *([] if self._fsync else lazy),
            ],
            self._installation.environment,
            self._data,
        )

    def healthy(self) -> bool:
        return self._client("SELECT 1", "").returncode == 0

    def restart(self, *, crash: bool = False) -> Self:
        """Stop, or end at once, and start again: same directory, same address."""
        if crash:
            self.kill()
        return super().restart()

    def execute(self, sql: str, database: str = "") -> str:
        """Run SQL as the administrator; returns what it printed, unadorned."""
        answer = self._client(sql, database)
        if answer.returncode != 0:
            # Around the error it repeats the statement, which may hold a password.
            errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
            raise ServiceError(f"MariaDB refused: {' '.join(errors)}")
        return answer.stdout.strip()

    def create_database(self, name: str) -> str:
        """Create the database `name`, and return that."""
        self.execute(f"CREATE DATABASE `{_plain(name)}`")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{_plain(name)}`")

    def create_replication_user(self, name: str) -> str:
        """A user that may snapshot every database and read the binlog; its password."""
        password = secrets.token_urlsafe(24)
        account = f"'{_plain(name)}'@'127.0.0.1'"
        self.execute(
            f"CREATE USER {account} IDENTIFIED BY '{password}'; GRANT {_CAPTURE} ON *.* TO {account}"
        )
        return password

    def _client(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        environment = self._installation.environment | {"MYSQL_PWD": self.password}
        command = [str(self._installation.client), "--no-defaults", "--batch", "--skip-column-names", "--raw"]
        command += ["--default-character-set=utf8mb4", "--connect-timeout=3"]
        command += ["-h", "127.0.0.1", "-P", str(self.port), "-u", _USER, *([database] if database else [])]
        # By its input: SQL may hold a password, and everybody sees command lines.
        return subprocess.run(
            command, input=sql, capture_output=True, text=True, env=environment, check=False
        )

    def _server(self) -> list[str]:
        share = self._installation.base / "share" / "mysql"
        command = [str(self._installation.server), "--no-defaults", f"--basedir={self._installation.base}"]
        command += [f"--datadir={self._data}", f"--lc-messages-dir={share}"]
        command += [f"--character-sets-dir={share / 'charsets'}"]
        return command + (["--user=root"] if os.geteuid() == 0 else [])

    def _initialize(self) -> str:
        """Make the system tables unless the directory has them; returns the administrator's password."""
        kept = self.directory / "password"
        if kept.is_file():
            return kept.read_text().strip()
        self._data.mkdir(mode=0o700, exist_ok=True)
        password = secrets.token_urlsafe(24)
        share = self._installation.base / "share" / "mysql"
        # The server's own first accounts have no password: ours takes their place.
        account = f"""
            DELETE FROM mysql.global_priv WHERE User = 'root';
            INSERT INTO mysql.global_priv VALUES ('127.0.0.1', '{_USER}', JSON_OBJECT(
              'access', 18446744073709551615, 'plugin', 'mysql_native_password',
              'authentication_string', PASSWORD('{password}')));
            """  # noqa: S608 - the password is ours and has no quote
        # A statement ends with its line.
        parts = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        parts += [(share / name).read_text() for name in _TABLES]
        answer = subprocess.run(
            [*self._server(), "--bootstrap", "--log-warnings=0", "--max-allowed-packet=8M"],
            input="\n".join([*parts, account]),
            capture_output=True,
            text=True,
            env=self._installation.environment,
            check=False,
        )
        if answer.returncode != 0:
            raise ServiceError(f"MariaDB could not prepare {self._data}:\n{answer.stderr.strip()[-2000:]}")
        kept.touch(mode=0o600)
        kept.write_text(password + "\n")
        return password


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ServiceError(f"'{name}' is no plain name (a-z, 0-9, _; at most 63 characters)")
    return name
