"""All jobs of a cluster as lineage. What fails for one job is reported and does not end the run."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeVar

from frazil.core.errors import FrazilError, NotFound
from frazil.lineage.flink.config import FlinkConfig
from frazil.lineage.flink.executions import (
    ENDED,
    Execution,
    JobRead,
    Reading,
    by_weight,
    executed,
    grouped,
    measures,
)
from frazil.lineage.flink.gateway import Gateway
from frazil.lineage.flink.plan.reading import read_plan
from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs, read_script
from frazil.lineage.flink.resolve.facts import JobFacts
from frazil.lineage.flink.resolve.resolver import Resolver
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.flink.resolve.topics import KafkaTopics
from frazil.lineage.flink.rest import CheckpointConfig, JobManager, JobSummary
from frazil.lineage.flink.trace import trace
from frazil.lineage.model import Job, TracedJob
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
        #: Whether a service did not answer that tells of all jobs; whether a job was not read, whose plan may
        #: tell of others; and jobs that are known in part.
        self._unasked = False
        self._unread = False
        self._in_part: set[str] = set()
        #: Names of jobs that are asked for, and by name those that are only between states that are.
        self._wanted_names: set[str] = set()
        self._passing: dict[str, JobSummary] = {}
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

        Jobs of one name are executions of one job: the newest is read, and all that have not ended. Only so
        many are under way that the workers have something to do: what is waiting for its reader takes memory.
        """
        waiting = deque(grouped(self._wanted()))
        later: deque[Reading] = deque()
        with ThreadPoolExecutor(self.config.max_workers, thread_name_prefix="frazil-flink") as pool:
            running: deque[Future[Reading | None]] = deque()
            while waiting or running:
                while waiting and len(running) < 2 * self.config.max_workers:
                    running.append(pool.submit(self._read, waiting.popleft()))
                read = running.popleft().result()
                if read is None:
                    continue
                if any(self._resolver.may_learn(one.traced, one.answers) for one in read.found):
                    later.append(read)
                elif (done := self._done(read)) is not None:
                    yield done
        while later:
            if (done := self._again(later.popleft())) is not None:
                yield done

    def passing(self) -> Iterator[Job]:
        """After `jobs`, if running ones are asked for: those between states, such as one that restarts."""
        for name, summary in self._passing.items():
            if name in self._wanted_names:
                continue
            job = self._or_problem(summary, lambda summary=summary: self._described(summary))  # type: ignore[misc]
            if job is not None:
                yield job

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
            if not self.config.job_name_pattern.allowed(job.name):
                continue
            if job.state in self.config.include_job_states:
                self._wanted_names.add(job.name)
                yield job
            elif job.state not in ENDED and "RUNNING" in self.config.include_job_states:
                self._passing[job.name] = job
                self._unread = True

    def _described(self, summary: JobSummary) -> Job:
        answer = self._manager.job(summary.jid)
        return executed(trace(read_plan(answer)).job, summary, answer)

    def _read(self, executions: tuple[JobSummary, ...]) -> Reading | None:
        return self._or_problem(executions[0], lambda: self._resolved(executions))

    def _again(self, read: Reading) -> JobRead | None:
        """What waited, after all the others were read."""

        def resolved() -> JobRead:
            for one in read.found:
                if one.facts is not None:
                    one.answers = self._resolver.resolve(one.traced, one.facts)
            return self._made(read, self._unread)

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
        self._unread = True
        return None

    def _resolved(self, executions: tuple[JobSummary, ...]) -> Reading:
        first, older = by_weight(executions)
        found = [self._execution(summary) for summary in first]
        for summary in older:
            if any(one.facts is not None for one in found):
                break
            found.append(self._execution(summary))
        return Reading(executions, found, self._checkpoints(first[0]))

    def _execution(self, summary: JobSummary) -> Execution:
        """One job of Flink's, with what its plan tells, if there ever was one."""
        answer = self._manager.job(summary.jid)
        plan = read_plan(answer)
        traced = trace(plan, _Tables(self._resolver))
        traced = replace(traced, job=executed(traced.job, summary, answer))
        if not plan.vertices:
            return Execution(traced, measures(answer))
        if not self.config.include_lineage:
            traced = TracedJob(traced.job)
        facts = JobFacts(
            summary.jid,
            lambda: self._manager.parameters(summary.jid),
            lambda vertex: self._manager.metric_names(summary.jid, vertex),
            lambda message: self._lacks(summary, message),
            traced.job.started,
        )
        return Execution(traced, measures(answer), facts, self._resolver.resolve(traced, facts))

    def _checkpoints(self, summary: JobSummary) -> CheckpointConfig | None:
        """A batch job has none, which is no problem; nor is a failure here a reason to lose the job."""
        try:
            return self._manager.checkpoints(summary.jid)
        except NotFound:
            return None
        except FrazilError as error:
            self._problem(summary, error.message)
            return None

    def _done(self, read: Reading) -> JobRead | None:
        return self._or_problem(read.executions[0], lambda: self._made(read))

    def _made(self, read: Reading, unread: bool = False) -> JobRead:
        """`unread`: some job was not, whose plan may tell something that is open in this one."""
        in_part = any(one.traced.job.id in self._in_part for one in read.found)
        passing = read.executions[0].name in self._passing
        return read.done(self._unasked or unread or in_part, passing)

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
