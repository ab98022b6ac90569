"""`frazil.run`: pipelines from a Python program."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.core.errors import FrazilError, InvalidConfig
from frazil.stream.config import CatalogConfig, PipelineConfig, Pipelines, SparkConfig, gather, load_pipelines
from frazil.stream.config.python import SettingValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.stream.events import Observer
    from frazil.stream.runner import Runner

_STEP_SECONDS = 0.2


def run(
    pipelines: PipelineConfig | Sequence[PipelineConfig] | str | os.PathLike[str],
    *,
    catalog: str | Mapping[str, str] | CatalogConfig | None = None,
    kafka: Mapping[str, SettingValue] | None = None,
    spark: SparkSession | Mapping[str, Any] | SparkConfig | None = None,
    once: bool = False,
    observer: Observer | None = None,
) -> None:
    """Run pipelines (or those of a YAML file) until interrupted or, with `once`, until they have caught up.

    `catalog` is an address or what stands under that key in YAML, `kafka` the settings that all share,
    `spark` a session that is there already or what stands under that key. Progress is printed as lines
    unless an `observer` listens. The error of a pipeline that failed is raised when the others have ended.
    Ctrl-C finishes the round in hand; a second one ends at once and loses nothing.

    >>> run(orders, kafka={"bootstrap.servers": "localhost:9092"}, once=True)  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    given, session = (None, spark) if isinstance(spark, SparkSession) else (spark, None)
    wanted = _pipelines(pipelines, catalog, kafka, given)
    from frazil.stream.observe import PlainLines
    from frazil.stream.runner import Runner

    used = session or _session(wanted)
    try:
        _watch(Runner(wanted, used, observer=observer or PlainLines(sys.stdout), once=once))
    finally:
        if session is None:
            used.stop()


def _pipelines(
    given: PipelineConfig | Sequence[PipelineConfig] | str | os.PathLike[str],
    catalog: str | Mapping[str, str] | CatalogConfig | None,
    kafka: Mapping[str, SettingValue] | None,
    spark: Mapping[str, Any] | SparkConfig | None,
) -> Pipelines:
    """A file says itself what its pipelines share; only where they run can be said otherwise."""
    if isinstance(given, str | os.PathLike):
        if kafka is not None:
            raise InvalidConfig(
                f"{os.fspath(given)} has Kafka's settings itself: leave out the keyword kafka"
            )
        found = load_pipelines(os.fspath(given))
        return gather(found.pipelines, catalog=catalog or found.catalog, spark=spark or found.spark)
    listed = [given] if isinstance(given, PipelineConfig) else given
    return gather(listed, catalog=catalog, kafka=kafka, spark=spark)


def _session(pipelines: Pipelines) -> SparkSession:
    from frazil.lake.session import spark_session

    spark = pipelines.spark
    return spark_session(spark.settings, master=spark.master, s3a=pipelines.needs_s3a)


def _watch(runner: Runner) -> None:
    failed: dict[str, FrazilError] = {}
    worker = threading.Thread(target=lambda: failed.update(runner.run()), daemon=True)
    try:
        worker.start()
        _wait(worker)
    except KeyboardInterrupt:
        runner.stop()
        try:
            _wait(worker)
        except KeyboardInterrupt:
            runner.abort()
            raise
    if len(failed) > 1:
        raise FrazilError("\n".join(f"pipeline {name}: {error.message}" for name, error in failed.items()))
    for error in failed.values():
        raise error


def _wait(worker: threading.Thread) -> None:
    """In short steps, so that Ctrl-C is met."""
    while worker.is_alive():
        worker.join(_STEP_SECONDS)
