"""Executions of a job as DataProcessInstances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from datahub.api.entities.dataprocess.dataprocess_instance import DataProcessInstance, InstanceRunResult
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.metadata.schema_classes import DataProcessTypeClass
from datahub.metadata.urns import DataJobUrn

from frazil.lineage.datahub.urns import Orchestrator, dataset_urn
from frazil.lineage.model import Dataset, Job

_RESULTS = {
    "FINISHED": InstanceRunResult.SUCCESS,
    "FAILED": InstanceRunResult.FAILURE,
    "CANCELED": InstanceRunResult.SKIPPED,
}


@dataclass(frozen=True)
class Run:
    """One execution: the job as it was then, and what it read and wrote."""

    job: Job
    inputs: Sequence[Dataset] = ()
    outputs: Sequence[Dataset] = ()
    url: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def run_proposals(
    orchestrator: Orchestrator, template: DataJobUrn, run: Run
) -> Iterator[MetadataChangeProposalWrapper]:
    """The execution, its start, and its end if it has ended. Without a start there is nothing to tell."""
    job = run.job
    if job.started is None:
        return
    kind = {True: DataProcessTypeClass.STREAMING, False: DataProcessTypeClass.BATCH_SCHEDULED, None: None}
    instance = DataProcessInstance(
        id=f"{job.name}_{job.started}",
        orchestrator=orchestrator.platform,
        cluster=orchestrator.env,
        # The schema allows None, for what is not known; the class that wraps it says otherwise.
        type=kind[job.streaming],  # type: ignore[arg-type]
        template_urn=template,
        properties=dict(run.properties),
        url=run.url,
        inlets=[dataset_urn(dataset) for dataset in run.inputs],
        outlets=[dataset_urn(dataset) for dataset in run.outputs],
        data_platform_instance=orchestrator.platform_instance,
    )
    yield from instance.generate_mcp(created_ts_millis=job.started, materialize_iolets=False)
    yield from instance.start_event_mcp(job.started)
    result = _RESULTS.get(job.state or "")
    if result is not None and job.ended is not None:
        yield from instance.end_event_mcp(
            job.ended, result, result_type=orchestrator.platform, start_timestamp_millis=job.started
        )
