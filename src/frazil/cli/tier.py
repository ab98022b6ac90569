"""`frazil tier`: one service that brings every hot table into Iceberg, each within its freshness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.clusters import LOG_TABLE, cluster_of, cluster_options, log_table_of
from frazil.cli.run import Work, run_loops, shown_options
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql import SparkSession

    from frazil.hot.cluster import Cluster
    from frazil.stream.events import Observer

_DATALAKE, _KAFKA, _FLUSS = "--datalake.", "--kafka.", "--fluss."


@click.command(
    short_help="Bring hot tables into Iceberg, each within its freshness.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@cluster_options
@click.option("--once", is_flag=True, help="Stop when everything that is in the logs now is in Iceberg.")
@click.option(
    "--log-table",
    metavar="NAME",
    default=LOG_TABLE,
    show_default=True,
    help="The table that lags and breaches are written to, once a minute; 'none' for no such table.",
)
@shown_options
@click.pass_context
def tier(
    context: click.Context,
    config_file: Path | None,
    kafka: str | None,
    uri: str | None,
    warehouse: str | None,
    once: bool,
    log_table: str,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    plain: bool,
    spark_log: Path | None,
) -> None:
    """Bring every enabled hot table of the cluster into Iceberg, each within its freshness, until stopped.

    Tables that are created, dropped or changed meanwhile are noticed. Run one such service: a second one
    takes over, and the first one stops. The flags of Fluss's tiering service that name the catalog are
    taken, too:

    \b
    frazil tier --kafka localhost:9092 --datalake.format iceberg \\
      --datalake.iceberg.type rest --datalake.iceberg.uri http://localhost:8181/catalog \\
      --datalake.iceberg.warehouse default

    Whatever ends this command, the next one goes on after the last commit of each table. The exit code is 1
    if a table stopped and could not go on.
    """
    datalake, settings = flags(context.args)
    cluster = cluster_of(config_file, kafka, uri, warehouse, datalake)
    cluster = replace(cluster, kafka={**cluster.kafka, **settings})
    cluster.require_brokers()
    run_loops(
        _work(cluster, once=once, log_table=log_table_of(log_table)),
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        as_json=as_json,
        plain=plain,
        spark_log=spark_log,
    )


def _work(cluster: Cluster, *, once: bool, log_table: str | None) -> Work:
    from frazil.hot.table import TIERING, table_name
    from frazil.hot.tiering.metrics import HotMetrics
    from frazil.hot.tiering.service import Tiering
    from frazil.stream.config.model import Pipelines

    history = None if log_table is None else table_name(log_table)

    def made(spark: SparkSession, observer: Observer) -> Tiering:
        return Tiering(cluster, spark, observer=observer, once=once, history=history)

    def measured(registry: CollectorRegistry) -> Observer:
        return HotMetrics(registry)

    return Work(Pipelines(cluster.catalog, cluster.spark, ()), (TIERING,), made, measured)


def flags(given: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The keys of `datalake.*` and the settings of Kafka among arguments that are no options of ours.

    >>> flags(["--datalake.format", "iceberg", "--kafka.bootstrap.servers=one:9092"])
    ({'datalake.format': 'iceberg'}, {'bootstrap.servers': 'one:9092'})
    """
    datalake: dict[str, str] = {}
    kafka: dict[str, str] = {}
    rest = list(given)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name.startswith(_FLUSS):
            raise InvalidInput(
                f"{name} is of Fluss's own servers, which there are none of here: say where Kafka is, by "
                "--kafka host:port, by --kafka.bootstrap.servers, or by 'bootstrap.servers' under 'kafka' in "
                "hot.yaml"
            )
        if not name.startswith((_DATALAKE, _KAFKA)):
            raise InvalidInput(
                f"{name} is no option of frazil tier; legal besides those of --help: --datalake.format, "
                "--datalake.iceberg.*, --kafka.*. It tiers every hot table of a cluster, which --config names"
            )
        if not equals:
            if not rest:
                raise InvalidInput(f"{name} has no value")
            value = rest.pop(0)
        if name.startswith(_KAFKA):
            kafka[name.removeprefix(_KAFKA)] = value
        else:
            datalake[name.removeprefix("--")] = value
    return datalake, kafka
