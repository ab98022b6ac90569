"""What runs in the driver processes of our side and of Spark's MERGE."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.cdc.changes import PARTITIONS
from bench.cdc.reader import CATALOG, MASTER, MEMORY
from bench.cdc.rows import SCHEMA
from frazil.core.errors import FrazilError
from frazil.jvm.jars import SPARK_KAFKA, jars
from frazil.lake.session import spark_session, spark_settings
from frazil.stream.events import Claimed, Event, RoundCommitted

_SPARK_TYPES = {"long": "bigint", "timestamptz": "timestamp"}
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Work:
    """From which topic into which table; a batch is one commit."""

    bootstrap_servers: str
    catalog_uri: str
    topic: str
    #: With its namespace.
    table: str
    batch: int


@dataclass
class _Gate:
    """Watches a pipeline, and lets it go on only as far as it is told: nothing runs unmeasured."""

    allowed: int = 0
    done: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def notify(self, event: Event) -> None:
        """Called by the pipeline's own thread."""
        if isinstance(event, RoundCommitted | Claimed):
            with self._changed:
                self.done += event.read if isinstance(event, RoundCommitted) else 0
                self._changed.notify_all()
                self._changed.wait_for(lambda: self.allowed > self.done)

    def let(self, changes: int, failed: Callable[[], str | None]) -> None:
        """Wait until so many more are committed."""
        with self._changed:
            self.allowed += changes
            self._changed.notify_all()
            while not self._changed.wait_for(lambda: self.done >= self.allowed, _LOOK_SECONDS):
                if (error := failed()) is not None:
                    raise RuntimeError(f"the pipeline ended: {error}")

    def open(self) -> None:
        with self._changed:
            self.allowed = sys.maxsize
            self._changed.notify_all()


def start(driver: str, work: Work) -> tuple[Callable[..., Any], Callable[[], None]]:
    """What lands so many changes, and what ends it."""
    return {"ours": _ours, "merge": _merge}[driver](work)


def _ours(work: Work) -> tuple[Callable[..., Any], Callable[[], None]]:
    """One pipeline, at work all the time."""
    import frazil
    from frazil.stream.config.model import CatalogConfig, SparkConfig
    from frazil.stream.config.python import gather
    from frazil.stream.runner import Runner

    spark = spark_session(master=MASTER, memory=MEMORY)
    line = frazil.Pipeline(
        "bench",
        topics=work.topic,
        format="debezium",
        table=work.table,
        freshness="1s",
        limits={"records_per_round": work.batch},
    )
    gathered = gather(
        [line],
        catalog=CatalogConfig(work.catalog_uri.removesuffix("/catalog")),
        kafka={"bootstrap.servers": work.bootstrap_servers},
        spark=SparkConfig(MASTER),
    )
    gate = _Gate()
    runner = Runner(gathered, spark, observer=gate)
    errors: dict[str, FrazilError] = {}
    running = threading.Thread(target=lambda: errors.update(runner.run()), daemon=True)
    running.start()

    def failed() -> str | None:
        return None if running.is_alive() else str(list(errors.values()))

    def end() -> None:
        runner.stop()
        gate.open()
        running.join()
        spark.stop()

    return lambda changes: gate.let(changes, failed), end


def _merge(work: Work) -> tuple[Callable[..., Any], Callable[[], None]]:
    """A batch read of Spark's Kafka source, the last change of each key, and a MERGE of them."""
    libraries = ",".join(str(jar) for jar in jars(SPARK_KAFKA))
    settings = spark_settings(work.catalog_uri, name=CATALOG) | {"spark.jars": libraries}
    spark = spark_session(settings, master=MASTER, memory=MEMORY)
    columns = ", ".join(f"{name}: {_SPARK_TYPES.get(kind, kind)}" for name, kind in SCHEMA.items())
    schema = f"op string, before struct<id: bigint>, after struct<{columns}>"
    following = 0

    def one() -> None:
        nonlocal following
        end = following + work.batch // PARTITIONS
        (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", work.bootstrap_servers)
            .option("subscribe", work.topic)
            .option("startingOffsets", _offsets(work.topic, following))
            .option("endingOffsets", _offsets(work.topic, end))
            .load()
            .createOrReplaceTempView("records")
        )
        spark.sql(_LAST.format(schema)).createOrReplaceTempView("changes")
        spark.sql(_MERGE.format(f"{CATALOG}.{work.table}"))
        following = end

    def several(changes: int) -> None:
        for _ in range(changes // work.batch):
            one()

    return several, spark.stop


def _offsets(topic: str, offset: int) -> str:
    return json.dumps({topic: {str(partition): offset for partition in range(PARTITIONS)}})


_LAST = """
SELECT op, key, after FROM (
    SELECT *, row_number() OVER (PARTITION BY key ORDER BY offset DESC) AS place FROM (
        SELECT change.op, coalesce(change.after.id, change.before.id) AS key, change.after, offset
        FROM (SELECT from_json(cast(value AS string), '{0}') AS change, offset FROM records)
    )
) WHERE place = 1
"""
_VALUES = ", ".join(f"t.{name} = s.after.{name}" for name in SCHEMA)
_MERGE = f"""
MERGE INTO {{0}} AS t USING changes AS s ON t.id = s.key
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {_VALUES}
WHEN NOT MATCHED AND s.op <> 'd' THEN
    INSERT ({", ".join(SCHEMA)}) VALUES ({", ".join(f"s.after.{name}" for name in SCHEMA)})
"""
