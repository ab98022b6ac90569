"""A resolver with evidence that is made up."""

from __future__ import annotations

from typing import Any

from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs, read_script
from frazil.lineage.flink.resolve.facts import JobFacts
from frazil.lineage.flink.resolve.found import Found
from frazil.lineage.flink.resolve.platforms import Named
from frazil.lineage.flink.resolve.resolver import Resolver
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.flink.resolve.topics import KafkaTopics
from frazil.lineage.model import Direction, Endpoint, Evidence, Job, Resolution, TracedJob, Unresolved

K_ORDERS = ("default_catalog", "default_database", "k_orders")


class Snapshots(IcebergCatalogs):
    """Iceberg catalogs without a server: tables by the job that wrote them."""

    def __init__(self, written: dict[str, list[Found]] | None = None) -> None:
        self.written = written or {}
        self.asked_since: list[int | None] = []

    def __bool__(self) -> bool:
        return bool(self.written)

    @property
    def whole(self) -> bool:
        return True

    def at(self, path: tuple[str, ...]) -> Found | None:
        return None

    def written_by(self, job: str, since: int | None) -> list[Found]:
        self.asked_since.append(since)
        return self.written.get(job, [])

    def named(self, wanted: tuple[str, ...]) -> Any:
        return iter(())

    def completed(self, found: Found) -> Found:
        return found


class Topics(KafkaTopics):
    """Topics without brokers."""

    def __init__(self, *names: str) -> None:
        self._known = frozenset(names)

    def names(self) -> frozenset[str]:
        return self._known


def read(
    name: str,
    *path: str,
    operator: str = "TableSourceScan(table=[[…]])",
    options: dict[str, str] | None = None,
) -> Endpoint:
    hints = {f"options.{key}": value for key, value in (options or {}).items()}
    return Endpoint(f"r-{name}-{path}", Direction.READ, name, "v1", operator, path, hints=hints)


def write(
    name: str, *path: str, operator: str | None = None, columns: tuple[str, ...] | None = None, **hints: str
) -> Endpoint:
    return Endpoint(
        f"w-{name}", Direction.WRITE, name, "v2", operator or f"{name}[11]: Writer", path, columns, hints
    )


def table(name: str, *columns: str, catalog: str = "ice") -> Found:
    return Found(Named("iceberg", name), Evidence("snapshot", "…"), catalog, columns or None)


class World:
    def __init__(self, **settings: Any) -> None:
        self.metrics: dict[str, tuple[str, ...]] = {}
        self.parameters: dict[str, str] = {}
        self.failed: list[str] = []
        self.job_name = "job"
        self.started: int | None = None
        self.iceberg = Snapshots()
        self.kafka: KafkaTopics = Topics()
        self.gateway: GatewayCatalogs | None = None
        self.config = flink_config({"connection": {"rest_api_url": "http://h"}, **settings})

    def resolver(self) -> Resolver:
        script = read_script(self.config.ddl_file)
        return Resolver(self.config, self.gateway, script, self.iceberg, self.kafka)

    def traced(self, *endpoints: Endpoint) -> TracedJob:
        return TracedJob(Job("job1", self.job_name), endpoints)

    def facts(self) -> JobFacts:
        return JobFacts(
            "job1",
            lambda: self.parameters,
            lambda vertex: self.metrics.get(vertex, ()),
            self.failed.append,
            self.started,
        )

    def resolve(self, *endpoints: Endpoint) -> list[Resolution | Unresolved]:
        found = self.resolver().resolve(self.traced(*endpoints), self.facts())
        return [found[endpoint.id] for endpoint in endpoints]

    def one(self, endpoint: Endpoint) -> str:
        """The dataset and the kind of its evidence, or why there is none."""
        (found,) = self.resolve(endpoint)
        if isinstance(found, Unresolved):
            return f"? {found.reason}"
        return f"{found.dataset} by {found.evidence[0].kind}"
