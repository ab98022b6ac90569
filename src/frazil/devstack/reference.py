"""Iceberg's own reference REST server, to compare with."""

from __future__ import annotations

import os
import urllib.parse
from pathlib import Path
from typing import ClassVar

from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import RCK, classpath
from frazil.jvm.java import java_command

JVM_OPENS = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


class ReferenceCatalog(Service):
    """`RESTCatalogServer` on SQLite (a file in its directory) or on a PostgreSQL `database_url`.

    >>> with ReferenceCatalog() as server:  # doctest: +SKIP
    ...     print(server.uri)
    """

    name: ClassVar[str] = "reference-catalog"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        database_url: str | None = None,
        warehouse: Path | None = None,
        memory: str = "1g",
        log_level: str = "warn",
    ) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.warehouse = warehouse or self.directory / "warehouse"
        self._database_url = database_url
        self._memory = memory
        self._log_level = log_level

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Command:
        arguments = java_command(
            *JVM_OPENS,
            f"-Xmx{self._memory}",
            f"-Dorg.slf4j.simpleLogger.defaultLogLevel={self._log_level}",
            "-cp",
            classpath(RCK),
            "org.apache.iceberg.rest.RESTCatalogServer",
        )
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CATALOG_")}
        environment |= {"CATALOG_REST_PORT": str(self.port), "CATALOG_WAREHOUSE": str(self.warehouse)}
        return Command(arguments, environment | self._database(), self.directory)

    def _database(self) -> dict[str, str]:
        if self._database_url is None:
            return {"CATALOG_URI": f"jdbc:sqlite:{self.directory / 'catalog.db'}"}
        url = urllib.parse.urlsplit(self._database_url)
        return {
            "CATALOG_URI": f"jdbc:postgresql://{url.hostname}:{url.port or 5432}{url.path}",
            "CATALOG_JDBC_USER": urllib.parse.unquote(url.username or ""),
            "CATALOG_JDBC_PASSWORD": urllib.parse.unquote(url.password or ""),
        }

    def healthy(self) -> bool:
        return status(self.port, "/v1/config") == 200
