"""The executions of one job: jobs of one name. What they read and write together is what the job does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.lineage.binding import bind, joined
from frazil.lineage.flink.http import Json
from frazil.lineage.flink.resolve.facts import JobFacts
from frazil.lineage.flink.rest import CheckpointConfig, JobSummary
from frazil.lineage.model import Job, JobLineage, Resolution, TracedJob, Unresolved

#: States in which a job stays.
ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})


@dataclass(frozen=True)
class JobRead:
    """A job, its lineage, and all executions of jobs of its name that the cluster remembers, newest first."""

    lineage: JobLineage
    executions: tuple[Job, ...]
    checkpoints: CheckpointConfig | None = None
    #: Whether everything could be asked that might tell more, or something else, of what it reads and writes.
    complete: bool = True
    #: What else its description says, under the names of DataHub's own source.
    measures: Mapping[str, str] = field(default_factory=dict)
    #: What each execution does that was read, by its id.
    each: Mapping[str, JobLineage] = field(default_factory=dict)


@dataclass
class Execution:
    """One on its way. Without a plan, which it may have failed before, there is nothing to ask about it."""

    traced: TracedJob
    measures: Mapping[str, str]
    facts: JobFacts | None = None
    answers: dict[str, Resolution | Unresolved] = field(default_factory=dict)


@dataclass
class Reading:
    """A job on its way. One that other jobs may still tell something about waits until they are read."""

    executions: tuple[JobSummary, ...]
    #: Those that were read, the newest first.
    found: list[Execution]
    checkpoints: CheckpointConfig | None

    def done(self, unasked: bool, passing: bool = False) -> JobRead:
        """`unasked`: some evidence could not be had, so that what is open need not be.

        `passing`: there is one more execution, whose state was not asked for.
        """
        each = {
            one.traced.job.id: bind(one.traced, one.answers) for one in self.found if one.facts is not None
        }
        newest = self.found[0]
        lineage = joined(newest.traced.job, each.values())
        jobs = {one.traced.job.id: one.traced.job for one in self.found} | {lineage.job.id: lineage.job}
        running = any(jobs[id_].state not in ENDED for id_ in jobs.keys() - each.keys())
        if running or not each:
            lineage = replace(lineage, unresolved=(*lineage.unresolved, _without_plan(lineage.job, running)))
        doubtful = any(one.facts is not None and one.facts.doubtful for one in self.found)
        open_ = running or passing or doubtful or (unasked and bool(lineage.unresolved))
        complete = bool(each) and not open_
        executions = (
            jobs.get(execution.jid) or _remembered(execution, lineage.job.streaming)
            for execution in self.executions
        )
        return JobRead(lineage, tuple(executions), self.checkpoints, complete, newest.measures, each)


def grouped(jobs: Iterable[JobSummary]) -> list[tuple[JobSummary, ...]]:
    """Executions by name, newest first; names in the order in which they appear."""
    found: dict[str, list[JobSummary]] = {}
    for job in jobs:
        found.setdefault(job.name, []).append(job)
    return [tuple(sorted(group, key=lambda job: -job.start_time)) for group in found.values()]


def by_weight(executions: tuple[JobSummary, ...]) -> tuple[list[JobSummary], list[JobSummary]]:
    """Those that are asked for their plans, and those that are asked, one by one, if none of these has any.

    Two jobs may have one name and run at the same time: Flink names those of SQL after what they write.
    """
    first = [job for number, job in enumerate(executions) if number == 0 or job.state not in ENDED]
    return first, [job for job in executions if job not in first]


def executed(job: Job, summary: JobSummary, answer: Json) -> Job:
    """With what a plan does not tell. Asked later than the overview, the job's own answer counts."""
    return replace(
        job,
        id=summary.jid,
        name=summary.name,
        state=str(answer.get("state") or summary.state),
        started=_moment(answer.get("start-time")),
        ended=_moment(answer.get("end-time")),
    )


def measures(answer: Json) -> dict[str, str]:
    """How long it took and how wide it may become."""
    given = {"max_parallelism": answer.get("maxParallelism"), "duration_ms": answer.get("duration")}
    return {name: str(value) for name, value in given.items() if isinstance(value, int) and value > 0}


def _moment(value: Any) -> int | None:
    """Flink writes -1 for what has not happened."""
    return int(value) if isinstance(value, int) and value > 0 else None


def _remembered(summary: JobSummary, streaming: bool | None) -> Job:
    """An older execution, of which only the overview tells."""
    started, ended = _moment(summary.start_time), _moment(summary.end_time)
    return Job(summary.jid, summary.name, streaming, summary.state, started, ended)


def _without_plan(job: Job, running: bool) -> Unresolved:
    reason = "no execution that the cluster remembers has a plan: it failed before that was made"
    if running:
        reason = "Flink gives no plan of an execution that has not ended"
    remedy = "see the job's exceptions in Flink, and read it again when it has run"
    return Unresolved(f"all that {job.name} reads and writes", reason, remedy)
