"""A PostgreSQL server of our own."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from frazil.core.errors import ServiceError
from frazil.devstack import debian
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

_USER = "frazil"
_DATABASE = "frazil"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PLACES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "usr/local/opt/postgresql@*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
)


@dataclass(frozen=True)
class Installation:
    """Where the server's programs are, and the environment they need to run there."""

    bin: Path
    environment: dict[str, str]


def find_installation() -> Installation:
    """The newest PostgreSQL on the machine, else one unpacked from Debian's packages."""
    if found := _newest(Path("/"), _on_path()):
        return Installation(found, _environment(None))
    root = debian.unpacked("postgresql")
    if found := _newest(root, []):
        return Installation(found, _environment(root))
    raise ServiceError(f"no initdb in {root}; remove that directory and try again")


def _on_path() -> list[Path]:
    places = []
    if program := shutil.which("postgres"):
        places.append(Path(program).resolve().parent)
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        places.append(Path(answer.stdout.strip() or "/nonexistent"))
    return places


def _newest(root: Path, candidates: list[Path]) -> Path | None:
    found = candidates + [path for place in _PLACES for path in root.glob(place)]
    usable = [
        path for path in found if all((path / name).exists() for name in ("initdb", "postgres", "psql"))
    ]
    return max(usable, key=_version, default=None)


def _version(directory: Path) -> int:
    return max((int(number) for number in re.findall(r"(\d+)", str(directory))), default=0)


def _environment(root: Path | None) -> dict[str, str]:
    environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C", "LC_ALL": "C", "TZ": "UTC"}
    if root is not None:
        libraries = sorted({str(path.parent) for path in root.glob("usr/lib/**/*.so*")})
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    return environment


class Postgres(Service):
    """A server on the loopback interface with a random password.

    >>> with Postgres() as server:  # doctest: +SKIP
    ...     url = server.create_database("lake")
    """

    name: ClassVar[str] = "postgresql"
    # SIGINT ends sessions and shuts down cleanly; SIGTERM would wait for clients to leave.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    # SIGQUIT is PostgreSQL's crash: no checkpoint, recovery at the next start. After SIGKILL the
    # orphaned backends would hold the shared memory and the next start would be refused.
    kill_signal: ClassVar[signal.Signals] = signal.SIGQUIT

    user: ClassVar[str] = _USER

    def __init__(
        self,
        directory: Path | None = None,
        *,
        fsync: bool = True,
        max_connections: int = 200,
        logical: bool = False,
    ) -> None:
        """`logical`: its changes can be decoded, as change data capture does."""
        super().__init__(directory)
        self.port = free_port()
        self._fsync = fsync
        self._logical = logical
        self._max_connections = max_connections
        self._installation = find_installation()
        self._account = _account()
        self._data = self.directory / "data"
        self.password = self._initialize()

    @property
    def url(self) -> str:
        return self.url_of(_DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://{_USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create the database `name` and return its URL."""
        if not _NAME.fullmatch(name):
            raise ServiceError(f"'{name}' is no plain database name (a-z, 0-9, _; at most 63 characters)")
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop the database `name`, ending its sessions."""
        if not _NAME.fullmatch(name):
            raise ServiceError(f"'{name}' is no plain database name (a-z, 0-9, _; at most 63 characters)")
        if self._logical:
            self.drop_slots(name)
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def drop_slots(self, database: str) -> None:
        """Drop the replication slots of `database`, ending who reads them: else it cannot be dropped."""
        slots = f"FROM pg_replication_slots WHERE database = '{database}'"
        self.execute(f"SELECT pg_terminate_backend(active_pid, 10000) {slots} AND active")
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}")

    def create_replication_user(self, name: str) -> str:
        """A user that may read every table and open replication slots; its password.

        Publications are not its to make: the administrator does.
        """
        if not _NAME.fullmatch(name):
            raise ServiceError(f"'{name}' is no plain user name (a-z, 0-9, _; at most 63 characters)")
        password = secrets.token_urlsafe(24)
        self.execute(f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD '{password}'")
        self.execute(f"GRANT pg_read_all_data TO {name}")
        return password

    def execute(self, sql: str, database: str = "postgres") -> str:
        """Run SQL as the administrator; returns what it printed, unadorned."""
        answer = self._psql(sql, database)
        if answer.returncode != 0:
            raise ServiceError(f"PostgreSQL refused: {answer.stderr.strip()}")
        return answer.stdout.strip()

    def healthy(self) -> bool:
        return self._psql("SELECT 1", "postgres").returncode == 0

    def command(self) -> Command:
        program = str(self._installation.bin / "postgres")
        user, group = self._account or (None, None)
        return Command(
            [program, "-D", str(self._data), "-p", str(self.port)],
            self._installation.environment,
            self._data,
            user=user,
            group=group,
            orphan_signal=signal.SIGQUIT,
        )

    def start(self) -> Postgres:
        super().start()
        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{_DATABASE}'"):  # noqa: S608
            self.create_database(_DATABASE)
        return self

    def _psql(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        environment = self._installation.environment | {
            "PGPASSWORD": self.password,
            "PGCONNECT_TIMEOUT": "3",
        }
        command = [str(self._installation.bin / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", "127.0.0.1", "-p", str(self.port), "-U", _USER, "-d", database, "-f", "-"]
        # By its input: SQL may hold a password, and everybody sees command lines.
        return subprocess.run(
            command, input=sql, capture_output=True, text=True, env=environment, check=False
        )

    def _initialize(self) -> str:
        """Make the cluster unless the directory has one; returns the password."""
        kept = self.directory / "password"
        if (self._data / "PG_VERSION").is_file():
            return kept.read_text().strip()
        password = secrets.token_urlsafe(24)
        kept.touch(mode=0o600)
        kept.write_text(password + "\n")
        self._data.mkdir(mode=0o700, exist_ok=True)
        given = self._data.with_name("password-for-initdb")
        given.touch(mode=0o600)
        given.write_text(password + "\n")
        if self._account:
            _require_reachable(self.directory, self._temporary)
            os.chown(self._data, *self._account)
            os.chown(given, *self._account)
        try:
            self._initdb(given)
        finally:
            given.unlink()
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(self._settings())
        return password

    def _initdb(self, password_file: Path) -> None:
        user, group = self._account or (None, None)
        command = [str(self._installation.bin / "initdb"), "-D", str(self._data), "-U", _USER, "-E", "UTF8"]
        command += ["--no-locale", "--auth=scram-sha-256", f"--pwfile={password_file}", "--no-sync"]
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self._installation.environment,
            cwd=self._data,
            user=user,
            group=group,
            extra_groups=[] if user is not None else None,
            check=False,
        )
        if answer.returncode != 0:
            raise ServiceError(f"initdb failed in {self._data}:\n{answer.stderr.strip()}")

    def _settings(self) -> str:
        decoding = "wal_level = logical\nmax_wal_senders = 20\nmax_replication_slots = 20\n"
        return (
            "\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\njit = off\n"
            f"max_connections = {self._max_connections}\nfsync = {'on' if self._fsync else 'off'}\n"
            "shared_buffers = 128MB\nlog_line_prefix = '%m [%p] '\n"
            f"{decoding if self._logical else ''}"
        )


def _account() -> tuple[int, int] | None:
    """The user to run as when we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise ServiceError(
        "PostgreSQL does not run as root and there is no user 'postgres' or 'nobody'; create one"
    )


def _require_reachable(directory: Path, ours: bool) -> None:
    """Let the other user pass through `directory`; refuse one that lies behind a closed parent."""
    if ours:
        directory.chmod(0o711)
    for path in (directory.absolute(), *directory.absolute().parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            raise ServiceError(
                f"PostgreSQL does not run as root, and other users cannot pass through {path}; "
                f"use another directory or: chmod o+x {path}"
            )
