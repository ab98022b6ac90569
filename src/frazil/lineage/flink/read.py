"""All jobs of a cluster as lineage. What fails for one job is reported and does not end the run."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar

from frazil.core.errors import FrazilError, NotFound
from frazil.lineage.binding import bind
from frazil.lineage.flink.config import FlinkConfig
from frazil.lineage.flink.gateway import Gateway
from frazil.lineage.flink.http import Json
from frazil.lineage.flink.plan.reading import read_plan
from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs, read_script
from frazil.lineage.flink.resolve.facts import JobFacts
from frazil.lineage.flink.resolve.resolver import Resolver
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.flink.resolve.topics import KafkaTopics
from frazil.lineage.flink.rest import CheckpointConfig, JobManager, JobSummary
from frazil.lineage.flink.trace import trace
from frazil.lineage.model import Job, JobLineage, Resolution, TracedJob, Unresolved
from frazil.lineage.tables import CatalogTable

T = TypeVar("T")
_logger = logging.getLogger("frazil.lineage")
#: What reading an answer that is not Flink's can end in, besides our own errors.
_BROKEN = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True)
class Problem:
    """Something that could not be read: what is emitted is not all there is, so nothing may be removed."""

    where: str
    message: str


@dataclass(frozen=True)
class JobRead:
    """A job, its lineage, and all executions of jobs of its name that the cluster remembers, newest first."""

    lineage: JobLineage
    executions: tuple[Job, ...]
    checkpoints: CheckpointConfig | None = None
    #: Whether everything could be asked that might tell more of what it reads and writes.
    complete: bool = True
    #: What else its description says, under the names of DataHub's own source.
    measures: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Read:
    """A job on its way. One that other jobs may still tell something about waits until they are read."""

    executions: tuple[JobSummary, ...]
    traced: TracedJob
    facts: JobFacts
    answers: dict[str, Resolution | Unresolved]
    checkpoints: CheckpointConfig | None
    measures: Mapping[str, str]

    def done(self, unasked: bool) -> JobRead:
        """`unasked`: some evidence could not be had, so that what is open need not be."""
        job, lineage = self.traced.job, bind(self.traced, self.answers)
        older = (_job(execution, job.streaming) for execution in self.executions[1:])
        complete = not (unasked and lineage.unresolved)
        return JobRead(lineage, (job, *older), self.checkpoints, complete, self.measures)


class _Tables(Mapping[tuple[str, ...], tuple[str, ...]]):
    """Columns of tables by path, asked for when a plan needs them."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def __getitem__(self, path: tuple[str, ...]) -> tuple[str, ...]:
        if (columns := self._resolver.columns(path)) is None:
            raise KeyError(path)
        return columns

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """What could be asked for has no end that is known here."""
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True


class FlinkReader:
    """Reads one cluster. Problems are given to `report`, by one thread at a time."""

    def __init__(self, config: FlinkConfig, report: Callable[[Problem], None]) -> None:
        self.config = config
        self._report = report
        self._reporting = threading.Lock()
        #: Whether a service did not answer that tells of all jobs; and jobs that are known in part.
        self._unasked = False
        self._in_part: set[str] = set()
        self._manager = JobManager(config.connection)
        self._gateway = Gateway(config.connection) if config.connection.sql_gateway_url else None
        self._iceberg = IcebergCatalogs(
            config.iceberg_catalogs, config.connection, self._failing("iceberg_catalogs")
        )
        catalogs = None
        if self._gateway is not None:
            catalogs = GatewayCatalogs(self._gateway, self._failing(self._gateway.url))
        kafka = KafkaTopics(config.kafka, config.connection.timeout_seconds, self._failing("kafka"))
        self._resolver = Resolver(config, catalogs, read_script(config.ddl_file), self._iceberg, kafka)

    def version(self) -> str:
        """Flink's version; the first thing to fail if there is no cluster."""
        return self._manager.cluster().flink_version

    def jobs(self) -> Iterator[JobRead]:
        """The jobs that the settings ask for, as they are read.

        Jobs of one name are executions of one job, whose newest is read. Only so many are under way that the
        workers have something to do: what is waiting for its reader takes memory.
        """
        waiting = deque(_grouped(self._wanted()))
        later: deque[_Read] = deque()
        with ThreadPoolExecutor(self.config.max_workers, thread_name_prefix="frazil-flink") as pool:
            running: deque[Future[_Read | None]] = deque()
            while waiting or running:
                while waiting and len(running) < 2 * self.config.max_workers:
                    running.append(pool.submit(self._read, waiting.popleft()))
                read = running.popleft().result()
                if read is None:
                    continue
                if self._resolver.may_learn(read.traced, read.answers):
                    later.append(read)
                elif (done := self._done(read)) is not None:
                    yield done
        while later:
            if (done := self._again(later.popleft())) is not None:
                yield done

    def catalog_tables(self) -> Iterator[CatalogTable]:
        """The tables of all catalogs that can be asked."""
        return self._resolver.catalog_tables()

    def close(self) -> None:
        """End the gateway's session and close all connections."""
        if self._gateway is not None:
            self._gateway.close()
        self._iceberg.close()
        self._manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> None:
        self.close()

    def _wanted(self) -> Iterator[JobSummary]:
        for job in self._manager.jobs():
            if self.config.job_name_pattern.allowed(job.name) and job.state in self.config.include_job_states:
                yield job

    def _read(self, executions: tuple[JobSummary, ...]) -> _Read | None:
        return self._or_problem(executions[0], lambda: self._resolved(executions))

    def _again(self, read: _Read) -> JobRead | None:
        """What waited, after all the others were read."""

        def resolved() -> JobRead:
            read.answers = self._resolver.resolve(read.traced, read.facts)
            return self._made(read)

        return self._or_problem(read.executions[0], resolved)

    def _or_problem(self, job: JobSummary, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except NotFound:
            self._problem(job, "the job vanished between two calls; the JobManager forgot it")
        except FrazilError as error:
            self._problem(job, error.message)
        except _BROKEN as error:
            self._problem(
                job, f"its description is not one that can be read ({type(error).__name__}: {error})"
            )
        except Exception as error:
            # The other jobs are as good as without it; nothing is removed after a problem.
            _logger.exception("the job %s (%s)", job.name, job.jid)
            self._problem(job, unexpected(error))
        return None

    def _resolved(self, executions: tuple[JobSummary, ...]) -> _Read:
        summary = executions[0]
        answer = self._manager.job(summary.jid)
        traced = trace(read_plan(answer), _Tables(self._resolver))
        traced = replace(traced, job=_executed(traced.job, summary, answer))
        if not self.config.include_lineage:
            traced = TracedJob(traced.job)
        facts = JobFacts(
            summary.jid,
            lambda: self._manager.parameters(summary.jid),
            lambda vertex: self._manager.metric_names(summary.jid, vertex),
            lambda message: self._lacks(summary, message),
            traced.job.started,
        )
        answers = self._resolver.resolve(traced, facts)
        return _Read(executions, traced, facts, answers, self._checkpoints(summary), _measures(answer))

    def _checkpoints(self, summary: JobSummary) -> CheckpointConfig | None:
        """A batch job has none, which is no problem; nor is a failure here a reason to lose the job."""
        try:
            return self._manager.checkpoints(summary.jid)
        except NotFound:
            return None
        except FrazilError as error:
            self._problem(summary, error.message)
            return None

    def _done(self, read: _Read) -> JobRead | None:
        return self._or_problem(read.executions[0], lambda: self._made(read))

    def _made(self, read: _Read) -> JobRead:
        return read.done(self._unasked or read.traced.job.id in self._in_part)

    def _lacks(self, job: JobSummary, message: str) -> None:
        self._in_part.add(job.jid)
        self._problem(job, message)

    def _problem(self, job: JobSummary, message: str) -> None:
        with self._reporting:
            self._report(Problem(f"job {job.name} ({job.jid})", message))

    def _failing(self, where: str) -> Callable[[str], None]:
        def failed(message: str) -> None:
            self._unasked = True
            with self._reporting:
                self._report(Problem(where, message))

        return failed


def unexpected(error: Exception) -> str:
    """What is said of an exception that nothing outside of frazil accounts for."""
    return f"frazil itself failed at it, please report that: {type(error).__name__}: {error}"


def _grouped(jobs: Iterable[JobSummary]) -> list[tuple[JobSummary, ...]]:
    """Executions by name, newest first; names in the order in which they appear."""
    found: dict[str, list[JobSummary]] = {}
    for job in jobs:
        found.setdefault(job.name, []).append(job)
    return [tuple(sorted(group, key=lambda job: -job.start_time)) for group in found.values()]


def _executed(job: Job, summary: JobSummary, answer: Json) -> Job:
    """With what a plan does not tell. Asked later than the overview, the job's own answer counts."""
    return replace(
        job,
        id=summary.jid,
        name=summary.name,
        state=str(answer.get("state") or summary.state),
        started=_moment(answer.get("start-time")),
        ended=_moment(answer.get("end-time")),
    )


def _measures(answer: Json) -> dict[str, str]:
    given = {"max_parallelism": answer.get("maxParallelism"), "duration_ms": answer.get("duration")}
    return {name: str(value) for name, value in given.items() if isinstance(value, int) and value > 0}


def _moment(value: Any) -> int | None:
    """Flink writes -1 for what has not happened."""
    return int(value) if isinstance(value, int) and value > 0 else None


def _job(summary: JobSummary, streaming: bool | None) -> Job:
    """An older execution, of which only the overview tells."""
    started, ended = _moment(summary.start_time), _moment(summary.end_time)
    return Job(summary.jid, summary.name, streaming, summary.state, started, ended)
