"""What the JobManager tells: its jobs, their plans, settings and metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from frazil.lineage.flink.config import Connection
from frazil.lineage.flink.http import Json, Service


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Fields that are not read here, or that a newer Flink adds, are ignored."""


class ClusterInfo(_Answer, frozen=True, kw_only=True):
    flink_version: str = ""


class JobSummary(_Answer, frozen=True, kw_only=True):
    """A line of the overview."""

    jid: str
    name: str
    state: str
    start_time: int = -1
    end_time: int = -1


class _Overview(_Answer, frozen=True, kw_only=True):
    jobs: tuple[JobSummary, ...]


class _Externalization(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False


class CheckpointConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a job makes checkpoints; a batch job has none."""

    mode: str | None = None
    interval: int | None = None
    state_backend: str | None = None
    externalization: _Externalization = _Externalization()


class _ExecutionConfig(_Answer, frozen=True, kw_only=True):
    user_config: dict[str, Any] = {}


class _JobConfig(_Answer, frozen=True, kw_only=True):
    execution_config: _ExecutionConfig = _ExecutionConfig()


class _Metric(msgspec.Struct, frozen=True):
    id: str


class JobManager:
    """The JobManager's REST API, read only. Threads may share one."""

    def __init__(self, connection: Connection) -> None:
        self.url = connection.rest_api_url
        self._service = Service(self.url, "Flink's JobManager", connection)

    def cluster(self) -> ClusterInfo:
        return self._service.read("/v1/config", ClusterInfo)

    def jobs(self) -> tuple[JobSummary, ...]:
        """Every job that the JobManager still remembers."""
        return self._service.read("/v1/jobs/overview", _Overview).jobs

    def job(self, jid: str) -> Json:
        """A job as the JobManager describes it, its plan included."""
        return self._service.read(f"/v1/jobs/{jid}", Json)

    def checkpoints(self, jid: str) -> CheckpointConfig:
        return self._service.read(f"/v1/jobs/{jid}/checkpoints/config", CheckpointConfig)

    def parameters(self, jid: str) -> dict[str, str]:
        """The global parameters that the job's program set."""
        found = self._service.read(f"/v1/jobs/{jid}/config", _JobConfig)
        return {name: str(value) for name, value in found.execution_config.user_config.items()}

    def metric_names(self, jid: str, vertex: str) -> tuple[str, ...]:
        """The names of a vertex's metrics; empty once its tasks have ended."""
        found = self._service.read(f"/v1/jobs/{jid}/vertices/{vertex}/metrics", tuple[_Metric, ...])
        return tuple(metric.id for metric in found)

    def close(self) -> None:
        self._service.close()
