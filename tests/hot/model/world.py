"""The services behind the tables of the workload, in a warehouse of its own: nobody else tiers them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer
from pyiceberg.catalog import load_catalog
from tests.hot.model.rows import declarations
from tests.hot.model.table import ModelTable

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot.cluster import Cluster
from frazil.hot.create import create, drop
from frazil.hot.find import load_hot_table
from frazil.hot.tiering.trim import Trimmer, trim_to
from frazil.lake.catalog import Lake
from frazil.lake.session import use_catalog
from frazil.lake.table import LakeTable
from frazil.maintenance.actions import document, expire, merge_files, merge_manifests
from frazil.maintenance.expiry import ExpiryPlan, expiry_by, plan_expiry
from frazil.stream.config.model import CatalogConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 120.0
_FILE_SIZE = 128 * 1024 * 1024


@dataclass
class World:
    kafka: Kafka
    spark: SparkSession
    server: FrazilServer
    warehouse: str

    def __post_init__(self) -> None:
        self.client = Client(self.server.uri, warehouse=self.warehouse)
        self.settings = {"bootstrap.servers": self.kafka.bootstrap_servers}
        quiet: dict[str, Any] = {**self.settings, "log_level": 0}
        spread = {"partitioner": "murmur2_random", "enable.idempotence": True, "linger.ms": 2}
        self.producer = Producer({**quiet, **spread})
        self.transactions = Producer({**quiet, **spread, "transactional.id": self.warehouse})
        self.transactions.init_transactions(_SECONDS)
        readers = {**quiet, "group.id": self.warehouse, "enable.auto.commit": False}
        #: Tells ends as those see them who read what is committed, and as they are.
        self.stable = Consumer({**readers, "isolation.level": "read_committed"})
        self.consumer = Consumer({**readers, "isolation.level": "read_uncommitted"})
        self.pyiceberg = load_catalog(
            "model", type="rest", uri=self.server.catalog_uri, warehouse=self.warehouse
        )
        self.catalog = f"model_{self.warehouse}"
        use_catalog(self.spark, self.catalog, self.client)
        self.lake = Lake(self.spark, self.client)
        self._trimmer = Trimmer(self.settings)
        self.tables = [
            ModelTable(self, create(one, self.client, self.settings).table, [c.name for c in one.columns])
            for one in declarations((self.warehouse,))
        ]

    def close(self) -> None:
        for table in self.tables:
            drop(self.client, self.settings, table.hot.namespace, table.hot.name, topic=True)
        for consumer in (self.stable, self.consumer):
            consumer.close()
        self.pyiceberg.close()
        self.lake.close()
        self.client.close()

    def cluster(self) -> Cluster:
        return Cluster(CatalogConfig(self.server.uri, self.warehouse), self.settings)

    def config(self) -> dict[str, Any]:
        """The same for a process of its own."""
        return {
            "datalake.format": "iceberg",
            "datalake.iceberg.type": "rest",
            "datalake.iceberg.uri": self.server.catalog_uri,
            "datalake.iceberg.warehouse": self.warehouse,
            "kafka": self.settings,
            "spark": {"master": "local[2]"},
        }

    def transaction(self, table: ModelTable, rng: Random) -> str:
        """Rows that nobody sees before they are committed, nor ever if they are not."""
        rows = [table.row(rng) for _ in range(rng.randint(1, 6))]
        good, before = rng.random() < 0.6, table.ends()
        self.transactions.begin_transaction()
        sent = [table.send(self.transactions, row) for row in rows]
        assert self.transactions.flush(_SECONDS) == 0
        assert table.ends() == before
        table.check()
        if good:
            self.transactions.commit_transaction(_SECONDS)
            for one, row in zip(sent, rows, strict=True):
                table.note(one, row)
        else:
            self.transactions.abort_transaction(_SECONDS)
        # The coordinator writes its markers when it has time.
        deadline = time.monotonic() + _SECONDS
        while table.ends() == before or table.ends() != table.ends(stable=False):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return f"{len(rows)} rows, {'committed' if good else 'aborted'}"

    def add_column(self, table: ModelTable) -> str:
        """As somebody would who knows nothing of frazil."""
        name = f"more{len(table.added)}"
        self.spark.sql(f"ALTER TABLE {self.catalog}.{table.name} ADD COLUMN {name} bigint")
        table.hot = load_hot_table(self.client, table.hot.namespace, table.hot.name)
        table.columns.append(name)
        table.added.append(name)
        return name

    def compact(self, table: ModelTable, rng: Random) -> str:
        """Iceberg's own rewrites, and those of our caretaker."""
        kind = rng.choice(("rewrite", "merge", "deletes", "manifests"))
        match kind:
            case "rewrite":
                self._call(table, "rewrite_data_files", "options => map('rewrite-all', 'true')")
            case "deletes":
                self._call(table, "rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
            case "merge":
                merge_files(self.spark, self._own(table), _FILE_SIZE, 1000)
            case _:
                merge_manifests(self.spark, self._own(table))
        return kind

    def expire(self, table: ModelTable, seconds: float) -> str:
        """What is older, but for what stamps need: also what was pinned a moment ago."""
        own, now = self._own(table), time.time()
        table.expired = now
        plan = plan_expiry(document(own), older_than_ms=(now - seconds) * 1000, at_most=10_000)
        return self._expire(own, plan)

    def care(self, table: ModelTable) -> str:
        """As the service does it for a table that asks for it, if it were for pins and stamps alone."""
        own, settings = self._own(table), replace(table.hot.maintenance, keep_snapshots=0.0)
        return self._expire(own, expiry_by(settings, document(own), time.time()))

    @staticmethod
    def _expire(own: LakeTable, plan: ExpiryPlan) -> str:
        if plan.expire:
            expire(own, plan.expire)
        return f"{len(plan.expire)} of {plan.kept + len(plan.expire)}"

    def trim(self, table: ModelTable, seconds: float) -> str:
        """As tiering does it, with a keep window of so many seconds."""
        metadata = self.client.tables.load(table.hot.namespace, table.hot.name).metadata
        now = time.time() - seconds
        offsets = trim_to(metadata, table.hot, now + table.hot.keep)
        table.trimmed = max(table.trimmed, now)
        self._trimmer.trim(table.hot, offsets)
        assert all(low <= at for low, at in zip(table.beginnings(), table.tiered(), strict=True))
        return f"to {offsets}"

    def _own(self, table: ModelTable) -> LakeTable:
        return self.lake.load_for_jobs(table.hot.namespace, table.hot.name)

    def _call(self, table: ModelTable, procedure: str, options: str) -> None:
        self.spark.sql(
            f"CALL {self.catalog}.system.{procedure}(table => '{self.catalog}.{table.name}', {options})"
        ).collect()
