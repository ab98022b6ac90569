"""`frazil-flink`: a source of `datahub ingest`, by entry point. Recipes of DataHub's own Flink source fit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from datahub.configuration.common import ConfigModel
from datahub.emitter.mce_builder import ALL_ENV_TYPES
from datahub.ingestion.api.common import PipelineContext
from datahub.ingestion.api.decorators import (
    SourceCapability,
    SupportStatus,
    capability,
    config_class,
    platform_name,
    support_status,
)
from datahub.ingestion.api.source import CapabilityReport, TestableSource, TestConnectionReport
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.ingestion.source.state.stale_entity_removal_handler import (
    StaleEntityRemovalSourceReport,
    StatefulStaleMetadataRemovalConfig,
)
from datahub.ingestion.source.state.stateful_ingestion_base import (
    StatefulIngestionConfigBase,
    StatefulIngestionSourceBase,
)
from datahub.masking.secret_registry import SecretRegistry
from datahub.utilities.lossy_collections import LossyList
from pydantic import ConfigDict

from frazil.core.errors import FrazilError, InvalidConfig
from frazil.lineage.datahub.datasets import database_units, dataset_proposal, table_proposals
from frazil.lineage.datahub.jobs import JobFrame, job_proposals, main_job, presence_proposals
from frazil.lineage.datahub.runs import Run, run_proposals
from frazil.lineage.datahub.urns import Orchestrator
from frazil.lineage.flink.config import FlinkConfig, flink_config
from frazil.lineage.flink.executions import JobRead
from frazil.lineage.flink.gateway import Gateway
from frazil.lineage.flink.read import FlinkReader, Problem, unexpected
from frazil.lineage.flink.resolve.catalogs import read_script
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.flink.resolve.topics import KafkaTopics
from frazil.lineage.flink.rest import CheckpointConfig, JobManager
from frazil.lineage.model import Dataset, Direction
from frazil.lineage.tables import Database

_logger = logging.getLogger("frazil.lineage")
_PLATFORM = "flink"
#: Of long lists in the report.
_LISTED = 10_000


class FlinkRecipe(StatefulIngestionConfigBase[StatefulStaleMetadataRemovalConfig], ConfigModel):
    """A recipe's config: DataHub's part of it is checked here, the rest by frazil's own settings."""

    model_config = ConfigDict(extra="allow")

    stateful_ingestion: StatefulStaleMetadataRemovalConfig | None = None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Without frazil's own settings: DataHub knows no secret among them."""
        return [("stateful_ingestion", self.stateful_ingestion)]

    def model_dump_redacted(self, **options: Any) -> dict[str, Any]:
        return super().model_dump_redacted(**options | {"exclude": set(self.model_extra or {})})

    def settings(self) -> FlinkConfig:
        """The same as frazil's own. From then on DataHub's log masks their secrets."""
        found = flink_config(self.model_extra or {})
        SecretRegistry.get_instance().register_secrets_batch(found.secrets())
        if found.env not in ALL_ENV_TYPES:
            raise InvalidConfig(f"env: {found.env!r} is not legal. Legal: {', '.join(sorted(ALL_ENV_TYPES))}")
        return found


def _long() -> LossyList[str]:
    """Somebody will look for theirs."""
    return LossyList(max_elements=_LISTED)


@dataclass
class FlinkReport(StaleEntityRemovalSourceReport):
    """What was read, and what could not be resolved, with reason and remedy."""

    flink_version: str = ""
    jobs: int = 0
    runs: int = 0
    sources: int = 0
    sinks: int = 0
    column_edges: int = 0
    tables: int = 0
    unresolved: LossyList[str] = field(default_factory=_long)
    evidence: LossyList[str] = field(default_factory=_long)


@platform_name("Flink", id=_PLATFORM)
@config_class(FlinkRecipe)
@support_status(SupportStatus.BETA)
@capability(
    SourceCapability.PLATFORM_INSTANCE, "By platform_instance, catalog_platform_map and platform_instance_map"
)
@capability(SourceCapability.LINEAGE_COARSE, "From plans, catalogs, snapshots and metrics")
@capability(SourceCapability.LINEAGE_FINE, "From the expressions of plans")
@capability(SourceCapability.CONTAINERS, "Databases of catalogs, with include_catalog_metadata")
@capability(SourceCapability.SCHEMA_METADATA, "Tables of catalogs, with include_catalog_metadata")
@capability(SourceCapability.DELETION_DETECTION, "By stateful ingestion")
class FrazilFlinkSource(StatefulIngestionSourceBase, TestableSource):
    """Jobs, runs, tables and columns of a Flink cluster."""

    platform = _PLATFORM

    def __init__(self, config: FlinkRecipe, ctx: PipelineContext) -> None:
        # Its parameter says the base class of what it takes.
        super().__init__(config, ctx)  # type: ignore[arg-type]
        self.config = config
        self.report: FlinkReport = FlinkReport()
        self._settings = config.settings()
        self._orchestrator = Orchestrator(_PLATFORM, self._settings.env, self._settings.platform_instance)
        self._reader = FlinkReader(self._settings, self._problem)
        self._reporting = threading.Lock()
        self._seen: set[Dataset] = set()

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> FrazilFlinkSource:
        return cls(FlinkRecipe.model_validate(config_dict), ctx)

    def get_report(self) -> FlinkReport:
        return self.report

    def get_workunits_internal(self) -> Iterable[MetadataWorkUnit]:
        """What was not read is a failure, a whole cluster or one job; the run goes on.

        DataHub removes nothing after a run with failures, and keeps the state of the run before.
        """
        try:
            self.report.flink_version = self._reader.version()
            if self._settings.include_catalog_metadata:
                yield from self._or_problem("the tables of catalogs", self._tables())
            for read in self._reader.jobs():
                job = read.lineage.job
                yield from self._or_problem(f"job {job.name} ({job.id})", self._job(read))
            for job in self._reader.passing():
                # That it is there, so that it is not removed.
                for proposal in presence_proposals(
                    self._orchestrator, job, self._settings.operator_granularity
                ):
                    yield proposal.as_workunit()
        except FrazilError as error:
            self._problem(Problem(self._settings.connection.rest_api_url, error.message))

    def close(self) -> None:
        self._reader.close()
        super().close()

    def _or_problem(self, where: str, units: Iterator[MetadataWorkUnit]) -> Iterator[MetadataWorkUnit]:
        """What is told of one thing; all others are as good without it."""
        try:
            yield from units
        except Exception as error:
            # DataHub takes nothing more of a source that raises.
            _logger.exception("%s", where)
            reason = error.message if isinstance(error, FrazilError) else unexpected(error)
            self._problem(Problem(where, reason))

    def _job(self, read: JobRead) -> Iterator[MetadataWorkUnit]:
        lineage, settings = read.lineage, self._settings
        self._count(read)
        if not lineage.job.vertices and settings.operator_granularity == "vertex":
            reason = "without a plan its vertices are not known"
            self._problem(Problem(f"job {lineage.job.name} ({lineage.job.id})", reason))
        proposals = job_proposals(
            self._orchestrator,
            lineage,
            self._frame(read),
            settings.operator_granularity,
            edges=settings.include_lineage and read.complete,
        )
        yield from (proposal.as_workunit() for proposal in proposals)
        yield from self._datasets(use.dataset for use in lineage.uses)
        template = main_job(self._orchestrator, lineage, settings.operator_granularity)
        if settings.include_run_history and template is not None:
            for run in self._runs(read):
                self.report.runs += 1
                for proposal in run_proposals(self._orchestrator, template, run):
                    yield proposal.as_workunit()

    def _datasets(self, datasets: Iterable[Dataset]) -> Iterator[MetadataWorkUnit]:
        """Each once. They are of other platforms: they must not be removed when no job uses them any more."""
        for dataset in datasets:
            if dataset not in self._seen:
                self._seen.add(dataset)
                yield dataset_proposal(dataset).as_workunit(is_primary_source=False)

    def _tables(self) -> Iterator[MetadataWorkUnit]:
        databases: set[Database] = set()
        for table in self._reader.catalog_tables():
            self.report.tables += 1
            if table.database not in databases:
                databases.add(table.database)
                yield from database_units(self._orchestrator, table.database)
            yield from self._datasets([table.dataset])
            for proposal in table_proposals(self._orchestrator, table):
                yield proposal.as_workunit(is_primary_source=False)

    def _runs(self, read: JobRead) -> Iterator[Run]:
        """Of those that were read it is known what they read and wrote."""
        for job in read.executions:
            known = read.each.get(job.id) if read.complete else None
            inputs = known.datasets(Direction.READ) if known is not None else ()
            outputs = known.datasets(Direction.WRITE) if known is not None else ()
            properties = {"flink_job_id": job.id, "job_state": job.state or ""}
            yield Run(job, inputs, outputs, self._url(job.id), properties)

    def _frame(self, read: JobRead) -> JobFrame:
        job = read.lineage.job
        properties = {"flink_version": self.report.flink_version}
        if job.state is not None:
            properties["job_state"] = job.state
        if job.streaming is not None:
            properties["job_type"] = "STREAMING" if job.streaming else "BATCH"
        if job.started is not None:
            properties["start_time"] = str(job.started)
        properties |= {**read.measures, **_checkpointing(read.checkpoints)}
        return JobFrame("Flink", self._url(job.id), properties, {"flink_job_id": job.id})

    def _url(self, jid: str) -> str:
        return f"{self._settings.connection.rest_api_url}/#/jobs/{jid}"

    def _count(self, read: JobRead) -> None:
        lineage, report = read.lineage, self.report
        report.jobs += 1
        report.sources += len(lineage.datasets(Direction.READ))
        report.sinks += len(lineage.datasets(Direction.WRITE))
        report.column_edges += len(lineage.columns)
        for use in lineage.uses:
            told = "; ".join(f"{evidence.kind}: {evidence.detail}" for evidence in use.evidence)
            report.evidence.append(f"{lineage.job.name} {use.direction.value}s {use.dataset} ({told})")
        if not read.complete:
            report.warning(
                title="Lineage not sent",
                message="Something that may tell more could not be had. What DataHub knows of the job stays.",
                context=lineage.job.name,
            )
        for item in lineage.unresolved:
            text = f"{lineage.job.name} {item.where}: {item.reason}; {item.remedy}"
            report.unresolved.append(text)
            report.warning(
                title="Unresolved",
                message="Which dataset or column it is could not be told.",
                context=text,
            )

    def _problem(self, problem: Problem) -> None:
        with self._reporting:
            self.report.failure(
                title="Not everything could be read",
                message="Nothing is removed after this run.",
                context=f"{problem.where}: {problem.message}",
            )

    @staticmethod
    def test_connection(config_dict: dict[str, Any]) -> TestConnectionReport:
        """Whether the settings are right, and each service answers."""
        try:
            settings = FlinkRecipe.model_validate(config_dict).settings()
        except (FrazilError, ValueError) as error:
            return TestConnectionReport(basic_connectivity=_refused(f"the recipe is not legal: {error}"))
        manager = JobManager(settings.connection)
        try:
            manager.cluster()
            report = TestConnectionReport(basic_connectivity=CapabilityReport(capable=True))
            report.capability_report = {SourceCapability.LINEAGE_COARSE: _asked(manager.jobs)}
        except FrazilError as error:
            return TestConnectionReport(basic_connectivity=_refused(error.message))
        finally:
            manager.close()
        if settings.connection.sql_gateway_url is not None:
            gateway = Gateway(settings.connection)
            report.capability_report["sql_gateway"] = _asked(gateway.catalogs)
            gateway.close()
        for name, ask in _evidence(settings):
            report.capability_report[name] = _asked(ask)
        return report


def _evidence(settings: FlinkConfig) -> Iterator[tuple[str, Callable[[], object]]]:
    """What else may be asked, each by one question."""
    problems: list[str] = []

    def catalog(name: str) -> None:
        catalogs = IcebergCatalogs(settings.iceberg_catalogs, settings.connection, problems.append)
        catalogs.check(name)
        catalogs.close()

    def topics() -> None:
        KafkaTopics(settings.kafka, settings.connection.timeout_seconds, problems.append).names()

    def told(ask: Callable[[], object]) -> None:
        problems.clear()
        ask()
        if problems:
            raise FrazilError(problems[0])

    for name in settings.iceberg_catalogs:
        yield f"iceberg_catalogs.{name}", partial(told, partial(catalog, name))
    if settings.kafka:
        yield "kafka", partial(told, topics)
    if settings.ddl_file is not None:
        yield "ddl_file", partial(read_script, settings.ddl_file)


def _asked(ask: Callable[[], object]) -> CapabilityReport:
    try:
        ask()
    except FrazilError as error:
        return _refused(error.message)
    except Exception as error:
        _logger.exception("the test of the connection")
        return _refused(unexpected(error))
    return CapabilityReport(capable=True)


def _refused(reason: str) -> CapabilityReport:
    return CapabilityReport(capable=False, failure_reason=reason)


def _checkpointing(found: CheckpointConfig | None) -> dict[str, str]:
    if found is None:
        return {}
    told = {
        "state_backend": found.state_backend,
        "checkpoint_interval_ms": None if found.interval is None else str(found.interval),
        "checkpoint_mode": found.mode,
        "externalized_checkpoints": str(found.externalization.enabled).lower(),
    }
    return {name: value for name, value in told.items() if value is not None}
