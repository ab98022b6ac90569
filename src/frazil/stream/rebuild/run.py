"""Rebuilds the tables of pipelines, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from frazil.client import Client
from frazil.core.errors import FrazilError
from frazil.stream.config.model import Pipelines
from frazil.stream.events import Observer
from frazil.stream.observe.fanout import Observers
from frazil.stream.rebuild.loop import RebuildLoop, Rebuilt, Wishes
from frazil.stream.runner import Loops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Rebuilds(Loops):
    """Those of one file, each in a thread of its own.

    >>> rebuilds = Rebuilds(pipelines, spark, observer=observer, wishes=Wishes())  # doctest: +SKIP
    >>> rebuilds.run()  # the errors of those that failed, by name  # doctest: +SKIP
    {}
    >>> rebuilds.results["orders"].after  # doctest: +SKIP
    1000
    """

    def __init__(
        self, pipelines: Pipelines, spark: SparkSession, *, observer: Observer, wishes: Wishes
    ) -> None:
        catalog = pipelines.catalog
        super().__init__(spark, Client(catalog.uri, warehouse=catalog.warehouse, token=catalog.token))
        shielded = Observers([observer])
        self._rebuilds: Sequence[RebuildLoop] = [
            RebuildLoop(config, spark, self._connected, catalog.name, shielded, wishes)
            for config in pipelines.pipelines
        ]
        self._loops = self._rebuilds

    @property
    def results(self) -> Mapping[str, Rebuilt]:
        """Of those that came to their end."""
        return {loop.name: loop.result for loop in self._rebuilds if loop.result is not None}


def rebuild(
    pipelines: Pipelines, spark: SparkSession, *, observer: Observer, wishes: Wishes | None = None
) -> tuple[Mapping[str, Rebuilt], Mapping[str, FrazilError]]:
    """What came of them, and the errors of those that failed, by name."""
    work = Rebuilds(pipelines, spark, observer=observer, wishes=wishes or Wishes())
    errors = work.run()
    return work.results, errors
