"""Every command in the documents is run, in order, against a server started as the document says."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.support import duckdb_extensions
from tests.docs.blocks import DOCUMENTS, ROOT, Block, blocks, name_of

from frazil.devstack.http import status
from frazil.devstack.kafka import Kafka
from frazil.devstack.ports import free_port
from frazil.devstack.postgres import Postgres
from frazil.devstack.seaweed import ObjectStore
from frazil.jvm.jars import SPARK_ICEBERG, jars
from frazil.jvm.java import find_java

pytestmark = [pytest.mark.services, pytest.mark.slow]

ON_SQLITE = "on SQLite"
#: Until a server has started, or ended.
_SECONDS = 120.0
MARK = "\0exported:"
EXPORTED = "\nprintf '\\0exported:'; env -0 | grep -zE '^(FRAZIL_|OAUTH_|PG)' || true"
SERVE = re.compile(r"^frazil serve$", re.MULTILINE)
#: Each of their commands starts Spark.
LONG = {"docs/dead-letters.md", "docs/lambda.md", "docs/sinks/routed.md"}
WITH_COMMANDS = [
    pytest.param(document, marks=[pytest.mark.exhaustive] if name_of(document) in LONG else [])
    for document in DOCUMENTS
    if any(b.language in ("sh", "python") and not b.skipped and b.file is None for b in blocks(document))
]


class Reader:
    """Somebody who pastes one block after the other; each document begins on a clean machine."""

    def __init__(self, home: Path, replacements: dict[str, str]) -> None:
        self.home = home
        self.port = free_port()
        self.replacements = {"127.0.0.1:8181": f"127.0.0.1:{self.port}", **replacements}
        self.server: subprocess.Popen[bytes] | None = None
        self.variables: dict[str, str] = {}

    def save(self, block: Block) -> None:
        assert block.file is not None, "it says its name"
        (self.home / block.file).write_text(self._here(block.text))

    def run(self, block: Block) -> str:
        text = self._here(block.text)
        if block.language == "python":
            return self._output(block, [sys.executable, "-W", "error", "-c", _offline_duckdb(text)])
        if SERVE.search(text):
            self._serve(block, text)
            return ""
        output = self._output(block, ["bash", "-euo", "pipefail", "-c", _offline_spark(text) + EXPORTED])
        return self._keep_exports(output)

    def serve(self) -> None:
        """Documents that begin with a running server."""
        self._serve(Block(Path("none"), 0, "sh", "", ""), "frazil serve\n")

    def stop(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(_SECONDS)

    def _here(self, text: str) -> str:
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        return text

    def _environment(self) -> dict[str, str]:
        java = find_java()
        bin_directory = str(Path(sys.executable).parent)
        keep = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
        return keep | {
            "HOME": str(self.home),
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "JAVA_HOME": str(java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONNOUSERSITE": "1",
            "FRAZIL_PORT": str(self.port),
            # What the commands look for at port 8181 otherwise.
            "FRAZIL_URI": f"http://127.0.0.1:{self.port}",
            **self.variables,
        }

    def _output(self, block: Block, command: list[str]) -> str:
        answer = subprocess.run(
            command,
            cwd=self.home,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert answer.returncode == 0, f"{block}:\n{answer.stdout}\n{answer.stderr[-3000:]}"
        return answer.stdout

    def _keep_exports(self, shown: str) -> str:
        """What is exported holds for the blocks after it too, as in one terminal."""
        output, _, exported = shown.rpartition(MARK)
        self.variables |= dict(line.split("=", 1) for line in exported.split("\0") if line)
        return output

    def _serve(self, block: Block, text: str) -> None:
        before = SERVE.split(text)[0] + EXPORTED
        self._keep_exports(self._output(block, ["bash", "-euo", "pipefail", "-c", before]))
        with (self.home / "serve.log").open("ab") as log:
            self.server = subprocess.Popen(
                ["frazil", "serve"], cwd=self.home, env=self._environment(), stdout=log, stderr=log
            )
        deadline = time.monotonic() + _SECONDS
        while status(self.port, "/health") != 200:
            assert self.server.poll() is None and time.monotonic() < deadline, (  # noqa: PT018
                f"{block}: the server did not start:\n{(self.home / 'serve.log').read_text()}"
            )
            time.sleep(0.05)


@pytest.fixture
def reader(
    tmp_path: Path,
    postgres_url: Callable[[], str],
    object_store: ObjectStore,
    kafka: Kafka,
) -> Iterator[Reader]:
    object_store.create_bucket("my-bucket")
    found = Reader(
        tmp_path,
        {
            "http://127.0.0.1:9000": object_store.endpoint,
            "127.0.0.1:9092": kafka.bootstrap_servers,
            "MY-ACCESS-KEY": object_store.catalog.access,
            "MY-SECRET-KEY": object_store.catalog.secret,
            "arn:aws:iam::123456789012:role/lake": object_store.role_arn,
            "postgresql://frazil:secret@127.0.0.1:5432/frazil": postgres_url(),
            "/tmp/frazil-scratch": str(tmp_path / "scratch"),
        },
    )
    yield found
    found.stop()


@pytest.mark.jvm
@pytest.mark.parametrize("document", WITH_COMMANDS, ids=name_of)
def test_the_commands_work(document: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    found = blocks(document)
    if statements := [block.text for block in found if block.language == "sql" and block.file is not None]:
        reader.replacements["port: 5432"] = f"port: {_shop(request, statements)}"
    if not any(SERVE.search(block.text) for block in found):
        reader.serve()
    ran = 0
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.file is not None:
            reader.save(block)
            continue
        if block.skipped or block.note == ON_SQLITE or block.language not in ("sh", "python"):
            continue
        output = reader.run(block)
        ran += 1
        if following is not None and following.language == "text" and "│" not in following.text:
            shown = _expected(document, block, following)
            if shown is not None:
                assert output.strip() == shown, str(block)
    assert ran > 0


def _shop(request: pytest.FixtureRequest, statements: list[str]) -> int:
    """A database that readers have; the port of its server."""
    server: Postgres = request.getfixturevalue("postgres_source")
    server.create_database("shop")

    def drop() -> None:
        server.drop_database("shop")
        server.execute("DROP ROLE IF EXISTS frazil_cdc")

    request.addfinalizer(drop)
    for statement in statements:
        server.execute(statement, "shop")
    return server.port


def test_the_backup_holds_the_catalog(tmp_path: Path) -> None:
    reader = Reader(tmp_path, {})
    reader.serve()
    try:
        (backup,) = [block for file in DOCUMENTS for block in blocks(file) if block.note == ON_SQLITE]
        reader.run(backup)
    finally:
        reader.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / ".frazil" / "catalog.backup.db")) as copy:
        assert copy.execute("SELECT name FROM warehouse").fetchall() == [("default",)]


def _expected(document: Path, block: Block, following: Block) -> str | None:
    """The output that stands right below a block; a text block further down is something else."""
    lines = document.read_text("utf-8").splitlines()
    between = lines[block.line + block.text.count("\n") + 1 : following.line - 1]
    return None if any(line.strip() for line in between) else following.text.strip()


def _offline_spark(text: str) -> str:
    """The jars that `--packages` names, from the cache instead of the network."""
    files = ",".join(str(jar) for jar in jars(SPARK_ICEBERG))
    return re.sub(r"--packages [\w.:,-]+", f"--jars {files}", text)


def _offline_duckdb(text: str) -> str:
    """The extension from the wheels instead of the network; unsigned ones must be allowed."""
    loads = "; ".join(f"LOAD '{file}'" for file in duckdb_extensions())
    text = text.replace("INSTALL iceberg; LOAD iceberg", loads)
    return text.replace("duckdb.connect()", 'duckdb.connect(config={"allow_unsigned_extensions": "true"})')


def test_the_configuration_example_is_accepted(tmp_path: Path) -> None:
    (toml,) = [block for block in blocks(ROOT / "README.md") if block.language == "toml"]
    file = tmp_path / "frazil.toml"
    file.write_text(toml.text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
    command = [sys.executable, "-m", "frazil.cli", "serve", "--config", str(file), "--show-config"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert re.search(rf"access-log +False +file {re.escape(str(file))}", shown)
