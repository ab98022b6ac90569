"""`frazil tier` from a program: one service for every hot table of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.hot.cluster import Cluster
from frazil.hot.tiering.loop import Service, TieringLoop
from frazil.stream.observe.fanout import Observers
from frazil.stream.runner import Loops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.stream.events import Observer


class Tiering(Loops):
    """Runs until stopped or, with `once`, until all that is in the logs now is in Iceberg.

    >>> Tiering(load_cluster("hot.yaml"), spark, observer=observer, once=True).run()  # doctest: +SKIP
    {}
    """

    def __init__(
        self,
        cluster: Cluster,
        spark: SparkSession,
        *,
        observer: Observer,
        once: bool = False,
        history: tuple[tuple[str, ...], str] | None = None,
    ) -> None:
        """`history`: the table that lags and breaches are written to."""
        super().__init__(spark, cluster.client())
        service = Service(cluster.require_brokers(), lambda: self._client, history)
        shielded = Observers([observer])
        self._loops = [
            TieringLoop(service, spark, self._connected, cluster.catalog.name, shielded, once=once)
        ]
