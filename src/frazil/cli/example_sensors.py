"""The sensor example: readings stream into a generic table, one file with a JSON array at a time.

It is a pipeline like any other: the source is the generator of readings, the sink the dataset. Spark's tasks
put the files, each on the condition that there is none of its number, which Spark's own writers do not offer:
so a run that is killed, or started twice, writes nothing twice. Spark reads every file back through S3A.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.example_settings import ENV_FILE, Settings, read_settings
from frazil.cli.pipelines import require_packages
from frazil.cli.quiet_spark import SparkLog, aside, redirected
from frazil.cli.remote import plain
from frazil.cli.stopping import EndedEarly, Signals
from frazil.client import Client, Renewing, Retry
from frazil.core.errors import FrazilError, NoSuchGenericTable, NoSuchNamespace, ServiceError
from frazil.core.names import show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import GenericTable, VendedCredentials
    from frazil.stream.config import PipelineConfig
    from frazil.stream.events import Event
    from frazil.stream.runner import Runner

_FORMAT = "dataset"
#: A file is published at most this many seconds after it is due.
_LOOK_SECONDS = 1.0
_MARGIN = 60.0
_LOCAL = ("/", "file:")


def main(files: Sequence[Path] = (Path(ENV_FILE),)) -> None:
    """Run until all records are published or somebody stops it; ends the process with 1 if it fails."""
    signals = Signals()
    signals.install()
    try:
        require_packages()
        _run(read_settings(files), signals)
    except EndedEarly:
        say("Stopped before anything was published.")
    except FrazilError as error:
        click.echo(f"frazil: {plain(error.message)}", err=True)
        sys.exit(1)


def say(text: str) -> None:
    """To a reader that may go away, as `head` does: then the run is asked to end."""
    try:
        click.echo(plain(text))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still to be said goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        os.kill(os.getpid(), signal.SIGTERM)


def _run(settings: Settings, signals: Signals) -> None:
    with Client(settings.uri, warehouse=settings.warehouse, retry=Retry(attempts=3)) as client:
        table = register(client, settings)
        keys = vended(client, settings, table)
        say(
            f"Streaming {settings.batch_size} records/file every {settings.batch_interval_ms / 1000:g}s from "
            f"{settings.sensors} sensors → {table.location}"
        )
        log = SparkLog.at(None)
        # Errors are told by what they raise; what libraries log (py4j whole tracebacks) is for the file.
        logging.basicConfig(filename=log.path, level=logging.WARNING)
        try:
            spark = session(log)
            signals.hold()
            try:
                reader = ReadBack(spark, table.location, keys)
                _stream(settings, client.uri, spark, signals, Progress(reader))
            finally:
                # A JVM that is gone is no second error.
                with contextlib.suppress(Exception):
                    spark.stop()
        except FrazilError:
            log.keep = True
            click.echo(f"Spark's messages are in {log.path}", err=True)
            raise
        finally:
            log.remove()


def register(client: Client, settings: Settings) -> GenericTable:
    """Make the generic table known; one that is there already is fine."""
    where = (settings.namespace, settings.table)
    try:
        found = client.generic_tables.load(*where)
        say(f"Exists   {show(*where)} → {found.location}")
    except (NoSuchGenericTable, NoSuchNamespace):
        client.namespaces.create(settings.namespace, parents=True, exist_ok=True)
        found = client.generic_tables.create(*where, _FORMAT, doc="made-up sensor readings")
        say(f"Created  {show(*where)} → {found.location}")
    say(f"Location: {found.location}")
    return found


def vended(client: Client, settings: Settings, table: GenericTable) -> Renewing | None:
    """Keys for the table's files, renewed as they end; None: a local folder needs none."""
    if table.location.startswith(_LOCAL):
        say("[frazil] vended credential keys: none, the table is a local folder")
        return None
    where = (settings.namespace, settings.table)

    def reload() -> VendedCredentials:
        """S3A only reads."""
        return client.generic_tables.load(*where, vended=True, read_only=True).credentials()

    keys = Renewing(reload, margin=_MARGIN)
    names = sorted(name for name in keys.current().config if _is_key(name))
    say(f"[frazil] vended credential keys: [{', '.join(names)}]")
    return keys


def session(log: SparkLog) -> SparkSession:
    """Spark with S3A: of `spark-submit`, or one on this machine whose messages go to the log."""
    from frazil.lake.session import spark_session
    from frazil.lake.submitted import load_jars, submitted

    if submitted():
        aside(load_jars, name="jars")
        return aside(lambda: spark_session(s3a=True, app="sensors"), name="spark")
    with redirected(log.path):
        return aside(lambda: spark_session(s3a=True, app="sensors"), name="spark")


def pipeline(settings: Settings) -> PipelineConfig:
    """Rounds of exactly BATCH_SIZE readings. Other settings are another pipeline, beside the first."""
    from dataclasses import replace

    from frazil.stream.config.hash import pipeline_hash
    from frazil.stream.config.model import (
        DatasetConfig,
        JsonFormat,
        Limits,
        PipelineConfig,
        SensorSource,
        TableConfig,
    )
    from frazil.stream.sensors import SENSOR_SCHEMA

    size, interval = settings.batch_size, settings.batch_interval_ms
    made = PipelineConfig(
        name=f"sensors-{settings.sensors}x{size}-{interval}ms",
        source=SensorSource(
            settings.sensors, size * 1000 / interval, settings.records, batch=size, live=True
        ),
        format=JsonFormat(),
        schema=SENSOR_SCHEMA,
        table=TableConfig((), ""),
        dataset=DatasetConfig(settings.namespace, settings.table, "json"),
        freshness=min(interval / 4000, _LOOK_SECONDS),
        limits=Limits(records_per_round=size),
    )
    return replace(made, hash=pipeline_hash(made))


def _stream(settings: Settings, uri: str, spark: SparkSession, signals: Signals, progress: Progress) -> None:
    from frazil.stream.config import Pipelines
    from frazil.stream.config.model import CatalogConfig, SparkConfig
    from frazil.stream.runner import Runner

    pipelines = Pipelines(CatalogConfig(uri, settings.warehouse), SparkConfig(), (pipeline(settings),))
    work = Work(Runner(pipelines, spark, observer=progress, once=settings.records is not None), progress)
    signals.watch(work, stopping=lambda: say("Stopping: the file in hand is finished first."), aborting=_exit)
    for error in work.errors.values():
        # With spark-submit, Ctrl-C ends the JVM as well; the file in hand is then there or is not.
        if not signals.asked:
            raise error
    progress.tell_end(asked=signals.asked)


class Progress:
    """Tells what is published, and has it read back."""

    def __init__(self, reader: ReadBack) -> None:
        self.reader = reader
        self._files = 0
        self._records = 0

    def notify(self, event: Event) -> None:
        from frazil.stream.events import Claimed, RoundCommitted, RoundRetried
        from frazil.stream.sinks.dataset_place import file_name

        match event:
            case Claimed(first_run=False):
                say("Going on behind what an earlier run published.")
            case RoundRetried():
                say(f"Trying again in {event.wait_seconds:g} s: {event.reason}")
            case RoundCommitted():
                self._files += event.files
                self._records += event.written
                name = file_name(event.pipeline, event.round, "json")
                say(f"Published {name}: {event.written} records, {event.total_written} in all")
                self.reader.add(name)

    def tell_end(self, *, asked: bool) -> None:
        if not self._files and not asked:
            say("All records are published already: raise NUM_RECORDS for more, or choose another TABLE.")
            return
        told = f"{self._records} records in {self._files} files"
        say(f"{'Stopped' if asked else 'Done'}: {told}; Spark read {self.reader.found} back.")
        if self.reader.found < self._records and not asked and not self.reader.ended:
            raise ServiceError("Spark did not find all that was published: this is a bug, please report it")


class ReadBack:
    """Reads files through Spark and S3A, behind the pipeline and in a thread of its own."""

    def __init__(self, spark: SparkSession, location: str, keys: Renewing | None) -> None:
        self.found = 0
        #: Why nothing more is read.
        self.ended: str | None = None
        self._spark = spark
        self._location = location.replace("s3://", "s3a://", 1).rstrip("/")
        self._keys = keys
        self._wire()
        self._waiting: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="read-back", daemon=True)
        self._thread.start()

    def add(self, name: str) -> None:
        self._waiting.put(name)

    def close(self) -> None:
        """Returns when everything is read."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        names: list[str | None] = []
        while None not in names:
            names = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    names.append(self._waiting.get_nowait())
            self._try([name for name in names if name is not None])

    def _try(self, names: list[str]) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if not names or self.ended is not None:
            return
        try:
            self._read(names)
        except (FrazilError, Py4JError, PySparkException) as error:
            lines = str(error).splitlines() or [type(error).__name__]
            self.ended = lines[0][:300]
            say(f"Nothing more is read back: {self.ended}")

    def _wire(self) -> None:
        """The same keys again change nothing; new ones replace those that end."""
        from frazil.lake import use_s3a

        if self._keys is not None:
            use_s3a(self._spark, self._keys.current())

    def _read(self, names: list[str]) -> None:
        from frazil.stream.sensors import SENSOR_SCHEMA

        self._wire()
        reader = self._spark.read.schema(SENSOR_SCHEMA.to_spark_ddl())
        files = reader.option("multiLine", "true").option("mode", "FAILFAST")
        frame = files.json([f"{self._location}/{name}" for name in names])
        ((count, sensors),) = frame.selectExpr("count(sensor_id)", "count(DISTINCT sensor_id)").collect()
        self.found += count
        say(f"Spark reads {count} records of {sensors} sensors in {len(names)} of the files")


class Work:
    """The pipeline, and after it what is still to be read back."""

    def __init__(self, runner: Runner, progress: Progress) -> None:
        self._runner = runner
        self._progress = progress
        self.errors: dict[str, FrazilError] = {}

    def run(self) -> None:
        self.errors = self._runner.run()
        self._progress.reader.close()

    def stop(self) -> None:
        self._runner.stop()

    def abort(self) -> None:
        self._runner.abort()


def _is_key(name: str) -> bool:
    """Of what is vended, that which nobody may see."""
    return any(word in name for word in ("key", "token", "secret", "sas")) and "expires" not in name


def _exit(code: int) -> None:
    """Java ends when its pipe to us closes, and the workers with it."""
    say("Stopped at once: what was not published will be by the next run.")
    os._exit(code)
