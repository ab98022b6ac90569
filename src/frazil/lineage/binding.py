"""From a traced job and the datasets of its endpoints to edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from frazil.lineage.model import (
    ColumnEdge,
    DatasetEdge,
    Endpoint,
    Input,
    Job,
    JobLineage,
    OutputColumn,
    Resolution,
    TracedJob,
    Unresolved,
    Use,
    Vertex,
)


def bind(traced: TracedJob, resolved: Mapping[str, Resolution | Unresolved]) -> JobLineage:
    """The lineage of a job, given for each endpoint's id which dataset it is or why that is not known.

    The columns that a job writes are named by the table, by position: the query's names may be others. So
    where the table's columns are not known, or are not as many, there are no edges to them, and the reason is
    told.
    """
    known = {id_: found for id_, found in resolved.items() if isinstance(found, Resolution)}
    unresolved = list(traced.unresolved)
    for endpoint in traced.endpoints:
        found = resolved.get(endpoint.id)
        if isinstance(found, Unresolved):
            unresolved.append(found)
        elif found is None:
            unresolved.append(_nothing_said(endpoint))
    edges = {
        DatasetEdge(known[flow.source].dataset, known[flow.sink].dataset)
        for flow in traced.flows
        if flow.source in known and flow.sink in known
    }
    columns: dict[ColumnEdge, None] = {}
    for column in traced.columns:
        if column.endpoint in known:
            columns.update(dict.fromkeys(_column_edges(traced, column, known, unresolved)))
    uses = (
        Use(endpoint.vertex, endpoint.direction, known[endpoint.id].dataset, known[endpoint.id].evidence)
        for endpoint in traced.endpoints
        if endpoint.id in known
    )
    return JobLineage(
        job=traced.job,
        uses=tuple(uses),
        edges=tuple(sorted(edges, key=_order)),
        columns=tuple(sorted(_strongest(columns), key=_column_order)),
        unresolved=tuple(dict.fromkeys(unresolved)),
    )


def joined(job: Job, lineages: Iterable[JobLineage]) -> JobLineage:
    """What several executions of a job do together."""
    given = list(lineages)
    vertices: dict[str, Vertex] = {}
    for lineage in given:
        for vertex in lineage.job.vertices:
            # An id says where in its job a vertex stands: the same in another one like it.
            other = vertices.setdefault(vertex.id, vertex)
            inputs = tuple(dict.fromkeys((*other.inputs, *vertex.inputs)))
            vertices[vertex.id] = replace(other, inputs=inputs)
    streaming = (one.streaming for one in (job, *(lineage.job for lineage in given)))
    known = next((one for one in streaming if one is not None), None)
    columns = dict.fromkeys(edge for lineage in given for edge in lineage.columns)
    return JobLineage(
        job=replace(job, streaming=known, vertices=tuple(vertices.values())),
        uses=tuple(dict.fromkeys(use for lineage in given for use in lineage.uses)),
        edges=tuple(sorted({edge for lineage in given for edge in lineage.edges}, key=_order)),
        columns=tuple(sorted(_strongest(columns), key=_column_order)),
        unresolved=tuple(dict.fromkeys(item for lineage in given for item in lineage.unresolved)),
    )


def _order(edge: DatasetEdge) -> tuple[str, ...]:
    ends = (edge.upstream, edge.downstream)
    return tuple(
        part or "" for end in ends for part in (end.platform, end.name, end.env, end.platform_instance)
    )


def _column_order(edge: ColumnEdge) -> tuple[str, ...]:
    return (
        *_order(DatasetEdge(edge.upstream, edge.downstream)),
        edge.upstream_column,
        edge.downstream_column,
    )


def _strongest(edges: Mapping[ColumnEdge, None]) -> list[ColumnEdge]:
    """Two statements of a job may fill a column in two ways: the edge is one, with the stronger of them."""
    found: dict[tuple[str, ...], ColumnEdge] = {}
    for edge in edges:
        key = _column_order(edge)
        if key not in found or found[key].derivation < edge.derivation:
            found[key] = edge
    return list(found.values())


def _nothing_said(endpoint: Endpoint) -> Unresolved:
    return Unresolved(
        where=endpoint.name,
        reason="nothing tells which dataset this is",
        remedy="name its catalog, its table or its pattern in the configuration",
        endpoint=endpoint.id,
    )


def _column_edges(
    traced: TracedJob,
    column: OutputColumn,
    known: Mapping[str, Resolution],
    unresolved: list[Unresolved],
) -> Iterator[ColumnEdge]:
    sink = known[column.endpoint]
    width = sum(1 for other in traced.columns if other.endpoint == column.endpoint)
    if sink.columns is None or len(sink.columns) != width:
        unresolved.append(_unnamed(column, sink, width))
        return
    target = sink.columns[column.position]
    if target is None:
        unresolved.append(_any_metadata(column, sink))
        return
    if column.unknown:
        unresolved.append(
            Unresolved(
                where=f"{sink.dataset}.{target}",
                reason=column.unknown,
                remedy="the plan tells no more of this column; the inputs that are given are right",
                endpoint=column.endpoint,
            )
        )
    for read in column.inputs:
        source = known.get(read.endpoint)
        if source is None:
            continue
        name = _source_name(read, source)
        if name is None:
            unresolved.append(_no_such_column(read, source))
        else:
            yield ColumnEdge(source.dataset, name, sink.dataset, target, read.derivation)


def _unnamed(column: OutputColumn, sink: Resolution, width: int) -> Unresolved:
    if sink.columns is None:
        reason = "the columns of the table are not known, and those of the query may have other names"
    else:
        reason = f"the query writes {width} columns, the table has {len(sink.columns)}"
    return Unresolved(
        where=f"columns of {sink.dataset}",
        reason=reason,
        remedy="give the table's schema: by a SQL Gateway that sees it, its catalog, or a DDL file",
        endpoint=column.endpoint,
    )


def _any_metadata(column: OutputColumn, sink: Resolution) -> Unresolved:
    return Unresolved(
        where=f"metadata of {sink.dataset}",
        reason="the table has several metadata columns, and its connector decides which is written first",
        remedy="nothing that is read here tells that order; the other columns are right",
        endpoint=column.endpoint,
    )


def _source_name(read: Input, source: Resolution) -> str | None:
    """The column that is read, a field of it behind dots; None where the table has no such column.

    A scan that reads only fields of a column names them by their path joined with `_`.
    """
    if source.columns is None or read.column in source.columns:
        return ".".join((read.column, *read.path))
    flattened = [
        f"{column}.{field}"
        for column, fields in source.fields.items()
        for field in fields
        if f"{column}.{field}".replace(".", "_") == read.column
    ]
    return ".".join((flattened[0], *read.path)) if len(flattened) == 1 else None


def _no_such_column(read: Input, source: Resolution) -> Unresolved:
    return Unresolved(
        where=f"{source.dataset}.{read.column}",
        reason="the plan reads a column of this name, and the table's schema has none",
        remedy="the schema may have changed since the job was started: restart the job",
        endpoint=read.endpoint,
    )
