"""What the commands about pipelines share: their file, its catalog, Spark for as long as a command takes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from frazil.cli.quiet_spark import SparkLog, aside, quiet_session
from frazil.core.errors import FrazilError, InvalidInput, ServiceError
from frazil.core.names import show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import Client
    from frazil.stream.config import PipelineConfig, Pipelines

T = TypeVar("T")
_NEEDED = ("confluent_kafka", "pyarrow", "pyiceberg_core", "pyspark", "rich", "yaml")
#: Pipelines that are asked about at the same time.
_AT_ONCE = 8


def require_packages() -> None:
    """An error in words when the extra for pipelines is not installed."""
    missing = [name for name in _NEEDED if util.find_spec(name) is None]
    if missing:
        raise ServiceError(f"pipelines need {', '.join(missing)}: pip install 'frazil[stream]'")


def load(file: Path, names: Sequence[str]) -> Pipelines:
    """The pipelines of a file: those that are named, or all if none is."""
    require_packages()
    from frazil.stream.config import load_pipelines

    pipelines = load_pipelines(file)
    there = {pipeline.name: pipeline for pipeline in pipelines.pipelines}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise InvalidInput(f"no pipeline {', '.join(unknown)} in {file}. There are: {', '.join(there)}")
    if not names:
        return pipelines
    return dataclasses.replace(pipelines, pipelines=tuple(there[name] for name in dict.fromkeys(names)))


def connect(pipelines: Pipelines) -> Client:
    """A client of the catalog for somebody who waits: that a server is down is said soon."""
    from frazil.client import Client, Retry

    catalog = pipelines.catalog
    return Client(catalog.uri, warehouse=catalog.warehouse, token=catalog.token, retry=Retry(attempts=3))


def require_answer(client: Client) -> None:
    """A catalog that is away is met at once, and not after the seconds that Spark takes to start."""
    next(iter(client.namespaces.list()), None)


def each(work: Callable[[PipelineConfig], T], pipelines: Pipelines) -> list[T]:
    """The answers in order, asked for side by side: a broker that is down costs its time once.

    A pipeline of changes has one for each of its topics.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(_parts, pipelines.pipelines)
        return list(pool.map(work, [lane for several in found for lane in several]))


def _parts(config: PipelineConfig) -> Sequence[PipelineConfig]:
    from frazil.stream.cdc.naming import lanes

    try:
        return lanes(config)
    except FrazilError:
        # Whoever asks the pipeline itself meets the reason.
        return (config,)


def lane_of(config: PipelineConfig, table: str | None) -> PipelineConfig:
    """The pipeline, or the part of it that writes the table."""
    from frazil.stream.cdc.naming import lanes

    found = {show(lane.table.namespace, lane.table.name): lane for lane in lanes(config)}
    if table is None and len(found) == 1:
        return next(iter(found.values()))
    if table not in found:
        raise InvalidInput(
            f"pipeline '{config.name}' has one position for each of its tables; say which by --table: "
            f"{', '.join(found)}"
        )
    return found[table]


def starting(pipelines: Pipelines) -> str:
    """What to say before the seconds that it takes."""
    return f"Starting Spark ({pipelines.spark.master})…"


def with_spark(pipelines: Pipelines, work: Callable[[SparkSession], T]) -> T:
    """What `work` makes with a session of its own."""
    with connect(pipelines) as client:
        require_answer(client)
    click.echo(starting(pipelines), err=True)
    log = SparkLog.at(None)
    try:
        spark = quiet_session(pipelines, log)
        try:
            return aside(lambda: work(spark), name="work")
        finally:
            # A JVM that died is no second error.
            with contextlib.suppress(Exception):
                spark.stop()
    finally:
        log.remove()
