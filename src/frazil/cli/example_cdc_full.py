"""The long form of the change data example: two databases, and Kafka between them and their copies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.cli.example_cdc_lake import Copy, a_lake, engines
from frazil.cli.example_cdc_run import Pipelines, Play, Teller, verdict
from frazil.cli.example_cdc_shop import DATABASE, Shop, Work
from frazil.cli.quiet_spark import quiet_spark
from frazil.core.errors import ServiceError
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.debezium import Capture, mariadb_connector, postgres_connector
from frazil.devstack.kafka import Kafka
from frazil.devstack.mariadb import MariaDb
from frazil.devstack.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USER = "debezium"
#: Between the stretches of work something happens.
_STRETCHES = 5
_TRIES = 12
_CONFLICTS = {"CommitFailedException", "ValidationException"}
_PIPELINES = """\
catalog: {{{catalog}}}
kafka: {{bootstrap.servers: "{kafka}"}}
spark: {{master: "local[2]"}}
pipelines:
  postgres:
    source: {{pattern: 'postgres\\.public\\..*'}}
    format: debezium
    table: {namespace}_postgres.{{table}}
    format_version: 3
    freshness: 2s
  mariadb:
    source: {{pattern: 'mariadb\\.shop\\..*'}}
    format: debezium
    table: {namespace}_mariadb.{{table}}
    format_version: 2
    freshness: 2s
"""


def play(home: Path, seconds: float, seed: int, teller: Teller) -> dict[str, Any]:
    """Everything is killed once that stands between the databases and their copies."""
    from frazil.stream.config.model import SparkConfig

    with contextlib.ExitStack() as stack:
        lake = stack.enter_context(a_lake(home))
        teller.say(f"The catalog answers at {lake.uri}.")
        shops, kafka = _shops(stack, home, seed, teller), stack.enter_context(Kafka(home / "kafka"))
        connect = stack.enter_context(KafkaConnect(kafka.bootstrap_servers, home / "connect"))
        teller.say(f"Kafka listens at {kafka.bootstrap_servers}, Kafka Connect at {connect.url}.")
        for shop in shops:
            _capture(shop, kafka, connect)
            teller.say(f"Debezium has read the first rows of {shop.title}, and follows it.")
        spark = stack.enter_context(quiet_spark(SparkConfig("local[2]")))
        readers = stack.enter_context(engines(lake, spark))
        text = _PIPELINES.format(
            catalog=lake.settings, kafka=kafka.bootstrap_servers, namespace=lake.namespace
        )
        teller.say(f"\n{text}\nfrazil run pipelines.yaml\n")
        with Pipelines(home / "run", text) as pipelines:
            copies = [Copy(shop, lake, f"{lake.namespace}_{shop.name}") for shop in shops]
            story = Play(pipelines, copies, readers["PyIceberg"], teller)
            compacted = _work(story, connect, spark, seconds / _STRETCHES)
            story.await_equal()
        return verdict(seed, story, readers) | {"compaction": compacted}


def _shops(stack: contextlib.ExitStack, home: Path, seed: int, teller: Teller) -> list[Shop]:
    postgres = stack.enter_context(Postgres(home / "postgres", fsync=False, logical=True))
    mariadb = stack.enter_context(MariaDb(home / "mariadb", fsync=False))
    shops = [Shop(postgres, seed), Shop(mariadb, seed)]
    for shop in shops:
        teller.say(f"{shop.title} listens at 127.0.0.1:{shop.server.port}.")
    return shops


def _capture(shop: Shop, kafka: Kafka, connect: KafkaConnect) -> None:
    """Return when the first rows are in Kafka: a connector does not bear altered tables before that."""
    password = shop.server.create_replication_user(_USER)
    capture = Capture(
        shop.name, shop.server.port, _USER, DATABASE, kafka.bootstrap_servers, format="json-schema"
    )
    shop.publish(capture.slot)
    kafka.create_topic(capture.signals)
    config = postgres_connector(capture) if isinstance(shop.server, Postgres) else mariadb_connector(capture)
    connect.create_connector(shop.name, config, secrets={"database.password": password})
    connect.wait_streaming(shop.name)


def _work(story: Play, connect: KafkaConnect, spark: SparkSession, stretch: float) -> dict[str, Any]:
    """What the compaction did."""
    shops = [copy.shop for copy in story.copies]
    with Work(shops) as work:
        story.await_rows()
        story.watch(stretch)
        story.say("the orders get a new column, and there is a new table, for what is sent back")
        for shop in shops:
            shop.add_column()
            shop.add_table()
        story.watch(stretch)
        story.kill(story.pipelines, "frazil run")
        # What follows is to meet it at work.
        story.await_rows()
        story.watch(stretch)
        story.kill(connect, "Kafka Connect")
        for shop in shops:
            connect.wait_running(shop.name)
        story.watch(stretch)
        compacted = _compact(story, work, spark, f"{story.copies[0].namespace}.orders")
        # The pipeline goes on behind it.
        story.await_rows()
        story.watch(stretch)
    return compacted


def _compact(story: Play, work: Work, spark: SparkSession, table: str) -> dict[str, Any]:
    """As somebody else would, beside the pipeline; where the two meet, this one is refused.

    On a slow machine they would meet for ever: changes become fewer until it is through.
    """
    from py4j.protocol import Py4JJavaError

    story.say(f"Spark compacts {table} (rewrite_data_files) while it changes")
    call = (
        f"CALL lake.system.rewrite_data_files(table => '{table}', "
        "options => map('rewrite-all', 'true', 'use-starting-sequence-number', 'false'))"
    )
    for tried in range(1, _TRIES + 1):
        try:
            (done,) = spark.sql(call).collect()
        except Py4JJavaError as error:
            if not _CONFLICTS & set(_kinds(error.java_exception)):
                raise ServiceError(f"the compaction of {table} failed: {error.java_exception}") from None
            story.pipelines.require_running()
            story.say("refused, the pipeline was quicker; again, with half as many changes")
            work.slow_down()
            continue
        work.speed_up()
        files = done["rewritten_data_files_count"]
        story.say(f"it made {done['added_data_files_count']} files of {files}, at try {tried}")
        return {"table": table, "files": files, "tries": tried, "snapshot": _snapshot_of(spark, table)}
    raise ServiceError(f"the compaction of {table} met the pipeline at each of {_TRIES} tries")


def _snapshot_of(spark: SparkSession, table: str) -> int:
    """The last one that this Spark made, not the pipeline's."""
    own = spark.sparkContext.applicationId
    ((found,),) = spark.sql(
        f"SELECT snapshot_id FROM lake.{table}.snapshots "  # noqa: S608 - names of ours
        f"WHERE operation = 'replace' AND summary['app-id'] = '{own}' ORDER BY committed_at DESC LIMIT 1"
    ).collect()
    return int(found)


def _kinds(thrown: Any) -> Iterator[str]:
    """Java's classes of what was thrown and of what caused it."""
    while thrown is not None:
        yield str(thrown.getClass().getSimpleName())
        thrown = thrown.getCause()
