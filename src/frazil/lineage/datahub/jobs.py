"""A job as a DataFlow and its DataJobs, with the datasets and columns that they make of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.metadata.schema_classes import (
    DataFlowInfoClass,
    DataJobInfoClass,
    DataJobInputOutputClass,
    EdgeClass,
    FineGrainedLineageClass,
    FineGrainedLineageDownstreamTypeClass,
    FineGrainedLineageUpstreamTypeClass,
    StatusClass,
    _Aspect,
)
from datahub.metadata.urns import DataJobUrn

from frazil.lineage.datahub.urns import Orchestrator, dataset_urn, field_urn
from frazil.lineage.model import ColumnEdge, Dataset, Derivation, Direction, Job, JobLineage, Vertex

Granularity = Literal["job", "vertex"]


@dataclass(frozen=True)
class JobFrame:
    """What is told of a job beside its lineage."""

    #: How people call its engine, in descriptions.
    engine: str
    url: str | None = None
    #: Of the flow.
    properties: Mapping[str, str] = field(default_factory=dict)
    #: How its engine tells this execution from others; on everything that is emitted.
    identity: Mapping[str, str] = field(default_factory=dict)


def job_proposals(
    orchestrator: Orchestrator,
    lineage: JobLineage,
    frame: JobFrame,
    granularity: Granularity = "job",
    *,
    edges: bool = True,
) -> Iterator[MetadataChangeProposalWrapper]:
    """The flow of a job, and one DataJob for all of it or for each vertex.

    Without `edges` nothing is said of what they read and write: what DataHub knows of that stays.
    """
    job = lineage.job
    kind = {True: "streaming ", False: "batch ", None: ""}[job.streaming]
    info = DataFlowInfoClass(
        name=job.name,
        description=f"{frame.engine} {kind}job",
        externalUrl=frame.url,
        customProperties={**frame.identity, **frame.properties},
        env=orchestrator.env,
    )
    yield from _aspects(str(orchestrator.flow(job.name)), info, orchestrator.instance())
    if granularity == "job":
        yield from _whole(orchestrator, lineage, frame, edges)
    else:
        for vertex in job.vertices:
            yield from _vertex(orchestrator, lineage, frame, vertex, edges)


def presence_proposals(
    orchestrator: Orchestrator, job: Job, granularity: Granularity
) -> Iterator[MetadataChangeProposalWrapper]:
    """Only that a job is there."""
    names = [job.name] if granularity == "job" else [_vertex_name(job, vertex) for vertex in job.vertices]
    urns = [orchestrator.flow(job.name), *(orchestrator.job(job.name, name) for name in names)]
    for urn in urns:
        yield from _aspects(str(urn), StatusClass(removed=False))


def main_job(orchestrator: Orchestrator, lineage: JobLineage, granularity: Granularity) -> DataJobUrn | None:
    """The DataJob that runs are of."""
    name = lineage.job.name
    if granularity == "job":
        return orchestrator.job(name, name)
    vertices = lineage.job.vertices
    return orchestrator.job(name, _vertex_name(lineage.job, vertices[0])) if vertices else None


def _whole(
    orchestrator: Orchestrator, lineage: JobLineage, frame: JobFrame, edges: bool
) -> Iterator[MetadataChangeProposalWrapper]:
    job = lineage.job
    info = _info(
        orchestrator,
        lineage,
        frame,
        job.name,
        {"operator_count": str(len(job.vertices))},
        f"All operators of {job.name}",
    )
    found = _in_out(
        lineage.datasets(Direction.READ),
        lineage.datasets(Direction.WRITE),
        _fine_grained(lineage.columns),
    )
    told = (found,) if edges else ()
    yield from _aspects(str(orchestrator.job(job.name, job.name)), info, *told, orchestrator.instance())


def _vertex(
    orchestrator: Orchestrator, lineage: JobLineage, frame: JobFrame, vertex: Vertex, edges: bool
) -> Iterator[MetadataChangeProposalWrapper]:
    """Columns belong to the vertex that writes them, whatever vertices they came through."""
    more = {"vertex_id": vertex.id, "operator_description": vertex.name[:500]}
    if vertex.parallelism is not None:
        more["parallelism"] = str(vertex.parallelism)
    name = _vertex_name(lineage.job, vertex)
    info = _info(orchestrator, lineage, frame, name, more, None)
    reads = _used(lineage, vertex, Direction.READ)
    writes = _used(lineage, vertex, Direction.WRITE)
    columns = [edge for edge in lineage.columns if edge.downstream in writes]
    found = _in_out(reads, writes, _fine_grained(columns))
    before = {other.id: other for other in lineage.job.vertices}
    found.inputDatajobEdges = [
        EdgeClass(
            destinationUrn=str(orchestrator.job(lineage.job.name, _vertex_name(lineage.job, before[id_])))
        )
        for id_ in dict.fromkeys(vertex.inputs)
        if id_ in before
    ]
    told = (found,) if edges else ()
    yield from _aspects(str(orchestrator.job(lineage.job.name, name)), info, *told, orchestrator.instance())


def _vertex_name(job: Job, vertex: Vertex) -> str:
    return f"{job.name}_{vertex.id}"


def _used(lineage: JobLineage, vertex: Vertex, direction: Direction) -> tuple[Dataset, ...]:
    uses = (use for use in lineage.uses if use.vertex == vertex.id and use.direction is direction)
    return tuple(dict.fromkeys(use.dataset for use in uses))


def _info(
    orchestrator: Orchestrator,
    lineage: JobLineage,
    frame: JobFrame,
    name: str,
    more: Mapping[str, str],
    description: str | None,
) -> DataJobInfoClass:
    kind = {True: "STREAMING", False: "BATCH", None: orchestrator.platform.upper()}[lineage.job.streaming]
    return DataJobInfoClass(
        name=name,
        type=kind,
        flowUrn=str(orchestrator.flow(lineage.job.name)),
        description=description,
        externalUrl=frame.url,
        customProperties={**frame.identity, **more},
        env=orchestrator.env,
    )


def _in_out(
    reads: Iterable[Dataset], writes: Iterable[Dataset], columns: list[FineGrainedLineageClass]
) -> DataJobInputOutputClass:
    """Sent even when empty: lineage that is no longer there must not stay."""
    return DataJobInputOutputClass(
        inputDatasets=[],
        outputDatasets=[],
        inputDatasetEdges=[EdgeClass(destinationUrn=str(dataset_urn(dataset))) for dataset in reads],
        outputDatasetEdges=[EdgeClass(destinationUrn=str(dataset_urn(dataset))) for dataset in writes],
        fineGrainedLineages=columns,
    )


def _fine_grained(edges: Iterable[ColumnEdge]) -> list[FineGrainedLineageClass]:
    """One entry for each column that is made; the strongest of its derivations names it."""
    grouped: dict[tuple[Dataset, str], list[ColumnEdge]] = {}
    for edge in edges:
        grouped.setdefault((edge.downstream, edge.downstream_column), []).append(edge)
    return [
        FineGrainedLineageClass(
            upstreamType=FineGrainedLineageUpstreamTypeClass.FIELD_SET,
            upstreams=sorted({field_urn(edge.upstream, edge.upstream_column) for edge in group}),
            downstreamType=FineGrainedLineageDownstreamTypeClass.FIELD,
            downstreams=[field_urn(dataset, column)],
            transformOperation=Derivation(max(edge.derivation for edge in group)).name,
        )
        for (dataset, column), group in grouped.items()
    ]


def _aspects(urn: str, *aspects: _Aspect) -> list[MetadataChangeProposalWrapper]:
    return list(MetadataChangeProposalWrapper.construct_many(urn, list(aspects)))
