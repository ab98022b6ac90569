"""Our own server as a child process, the way users start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command


class FrazilServer(Service):
    """`frazil serve` on a free port, with SQLite in its directory or on a PostgreSQL `database_url`.

    >>> with FrazilServer() as server:  # doctest: +SKIP
    ...     print(server.catalog_uri)
    """

    name: ClassVar[str] = "frazil"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        database_url: str | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._database_url = database_url
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def catalog_uri(self) -> str:
        return f"{self.uri}/catalog"

    @property
    def management_uri(self) -> str:
        return f"{self.uri}/management/v1"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def command(self) -> Command:
        arguments = [sys.executable, "-m", "frazil.cli", "serve", "--port", str(self.port)]
        arguments += ["--data-dir", str(self.data_dir), *self._arguments]
        # Settings of the caller's own server must not leak into this one.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")} | self._environment
        if self._database_url is not None:
            # It holds a password, and command lines are public.
            environment["FRAZIL_DATABASE_URL"] = self._database_url
        return Command(arguments, environment, self.directory)

    def healthy(self) -> bool:
        return status(self.port, "/health") == 200
