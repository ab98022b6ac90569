"""Apicurio Registry, a schema registry with Confluent's API, in memory."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx

from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import APICURIO, jars
from frazil.jvm.java import find_java

_API = "/apis/ccompat/v7"
_JAVA = 21
_SECONDS = 30.0


class SchemaRegistry(Service):
    """A schema registry on loopback; what is registered is gone when it stops.

    >>> with SchemaRegistry() as registry:  # doctest: +SKIP
    ...     registry.register("orders-value", '{"type": "record", …}')
    """

    name: ClassVar[str] = "registry"
    start_seconds: ClassVar[float] = 180

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._management_port = free_port()

    @property
    def url(self) -> str:
        """Where clients of Confluent's registry find it."""
        return f"http://127.0.0.1:{self.port}{_API}"

    def command(self) -> Command:
        java = find_java(_JAVA)
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        # It lives for minutes: compiling for speed would cost more than it saves.
        options = ["-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx384m", *java.options]
        options += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        # Where health and metrics are: of every address and always the same port otherwise.
        options += ["-Dquarkus.management.host=127.0.0.1"]
        options += [f"-Dquarkus.management.port={self._management_port}"]
        return Command(
            [java.command, *options, "-jar", str(self._home() / "quarkus-run.jar")], keep, self.directory
        )

    def healthy(self) -> bool:
        return status(self.port, f"{_API}/subjects") == 200

    def register(
        self,
        subject: str,
        schema: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, str | int]] = (),
    ) -> int:
        """The id of the schema; each reference has `name`, `subject` and `version`."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        with httpx.Client(trust_env=False, timeout=_SECONDS) as client:
            answer = client.post(f"{self.url}/subjects/{subject}/versions", json=body)
        if answer.is_error:
            raise ServiceError(
                f"the registry answered {answer.status_code} to a schema of {subject}: {answer.text[:500]}"
            )
        document: dict[str, Any] = answer.json()
        return int(document["id"])

    def _home(self) -> Path:
        (archive,) = jars(APICURIO)
        home = self.directory / "app"
        if not home.is_dir():
            with tarfile.open(archive) as packed:
                packed.extractall(home, filter="data")
        return home
