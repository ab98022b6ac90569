"""A job's plan as endpoints, flows and columns: everything that the plan alone can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from frazil.lineage.flink import endpoints
from frazil.lineage.flink.columns import Looked, derive, is_join
from frazil.lineage.flink.inputs import solve
from frazil.lineage.flink.plan.graph import Node, build_graph
from frazil.lineage.flink.plan.reading import Plan
from frazil.lineage.flink.plan.scanning import Unclear
from frazil.lineage.flink.rows import Row, opaque, union
from frazil.lineage.flink.sinks import feeders, find_sinks, loose_ends, sink_parts
from frazil.lineage.model import Endpoint, Flow, Job, OutputColumn, TracedJob, Unresolved, Vertex

#: Columns of tables by their path in the plan, for what a plan does not tell of a table that is looked up.
Tables = Mapping[tuple[str, ...], tuple[str, ...]]
_Ids = frozenset[str]


def trace(plan: Plan, tables: Tables | None = None) -> TracedJob:
    """The lineage in a plan. The job has neither state nor times: those are not in a plan."""
    return _Tracer(plan, tables or {}).traced()


class _Tracer:
    def __init__(self, plan: Plan, tables: Tables) -> None:
        self._plan = plan
        self._tables = tables
        self._graph = build_graph(plan)
        self._absorbed = self._inside_scans()
        self._parts = sink_parts(self._graph)
        self._found: dict[str, Endpoint] = {}
        #: The endpoints that a node itself reads.
        self._reads: dict[Node, str] = {}
        self._rows: dict[Node, Row] = {}
        #: The endpoints whose rows surely, and those whose rows perhaps, come to a node.
        self._reach: dict[Node, tuple[_Ids, _Ids]] = {}
        self._flows: list[Flow] = []
        self._columns: list[OutputColumn] = []
        self._unresolved: list[Unresolved] = []

    def traced(self) -> TracedJob:
        for node in self._graph.nodes:
            self._rows[node] = opaque("inside a source") if node in self._absorbed else self._row(node)
            self._reach[node] = self._reached(node)
        for parts in find_sinks(self._graph, self._parts):
            self._sink(parts)
        self._unresolved += [_loose_end(node) for node in loose_ends(self._graph, self._parts)]
        return TracedJob(
            job=self._job(),
            endpoints=tuple(self._found.values()),
            flows=tuple(dict.fromkeys(self._flows)),
            columns=tuple(self._columns),
            unresolved=tuple(self._unresolved),
        )

    def _job(self) -> Job:
        vertices = (
            Vertex(vertex.id, vertex.name, tuple(dict.fromkeys(vertex.inputs)), vertex.parallelism)
            for vertex in self._plan.vertices
        )
        return Job(self._plan.job_id, self._plan.name, self._plan.streaming, vertices=tuple(vertices))

    def _inside_scans(self) -> set[Node]:
        """Operators that feed a table's scan: parts of the source, which the scan names."""
        inside: set[Node] = set()
        for node in reversed(self._graph.nodes):
            reads_table = node.operator.kind in endpoints.SCANS - endpoints.CONVERSIONS
            if reads_table or node in inside:
                inside.update(feeder for feeder in feeders(self._graph, node) if not feeder.operator.kind)
        return inside

    # -- what a node puts out

    def _row(self, node: Node) -> Row:
        operator = node.operator
        fed = bool(feeders(self._graph, node))
        if operator.kind == "Values":
            return Row()
        if fed and operator.kind in endpoints.CONVERSIONS:
            return endpoints.converted_row(operator)
        if not fed or operator.kind in endpoints.SCANS:
            endpoint = endpoints.scanned(node, self._new_id("read", node))
            self._add(node, endpoint)
            return endpoints.scan_row(endpoint, operator)
        if node in self._parts:
            # It changes no row, and one of another vertex may be fed by it.
            return self._solved(node, lambda rows: rows[0])
        looked = self._looked(node)
        return self._solved(node, lambda rows: derive(operator, rows, looked))

    def _solved(self, node: Node, derived: Callable[[Sequence[Row]], Row]) -> Row:
        """What `derived` makes of all that feeds `node`."""
        if node.parent is not None:
            try:
                return derived([self._rows[node.parent]])
            except Unclear as error:
                return opaque(str(error))
        inputs = (None if node.operator.kind == "MultiJoin" else 2) if is_join(node.operator) else 1
        return solve(self._graph, self._graph.edges.get(node, ()), self._rows, inputs, derived)

    def _looked(self, node: Node) -> Looked | None:
        if not node.operator.kind.endswith("LookupJoin"):
            return None
        endpoint = endpoints.looked_up(node, self._new_id("read", node))
        self._add(node, endpoint)
        return Looked(endpoint.id, self._tables.get(endpoint.path))

    def _add(self, node: Node, endpoint: Endpoint) -> None:
        self._found[endpoint.id] = endpoint
        self._reads[node] = endpoint.id

    def _new_id(self, direction: str, node: Node) -> str:
        number = node.operator.number
        base = f"{direction}:{node.vertex}" + ("" if number is None else f":{number}")
        id_, again = base, 2
        while id_ in self._found:
            id_, again = f"{base}#{again}", again + 1
        return id_

    def _reached(self, node: Node) -> tuple[_Ids, _Ids]:
        own = frozenset({self._reads[node]} if node in self._reads else ())
        surely, perhaps = set(own), set(own)
        choices = [(node.parent,)] if node.parent is not None else self._choices(node)
        for producers in choices:
            surely |= frozenset.intersection(*(self._reach[producer][0] for producer in producers))
            perhaps |= frozenset.union(*(self._reach[producer][1] for producer in producers))
        return frozenset(surely), frozenset(perhaps)

    def _choices(self, node: Node) -> list[tuple[Node, ...]]:
        return [edge.producers for edge in self._graph.edges.get(node, ()) if edge.producers]

    # -- sinks

    def _sink(self, parts: Sequence[Node]) -> None:
        entries = [node for node in parts if not set(feeders(self._graph, node)) & set(parts)]
        row = self._incoming(entries)
        id_ = self._new_id("write", parts[0])
        endpoint = endpoints.written(parts, id_, row)
        if row.columns is None and (table := self._tables.get(endpoint.path)) is not None:
            fitting = self._incoming(entries, len(table))
            if fitting.columns is not None:
                row, endpoint = fitting, endpoints.written(parts, id_, fitting)
        self._found[endpoint.id] = endpoint
        surely = frozenset[str]().union(*(self._reach[node][0] for node in entries))
        perhaps = frozenset[str]().union(*(self._reach[node][1] for node in entries)) - surely
        self._flows += [Flow(source, endpoint.id) for source in self._found if source in surely]
        self._unresolved += self._open_flows(endpoint, sorted(perhaps))
        self._sink_columns(endpoint, row)

    def _incoming(self, entries: Sequence[Node], width: int | None = None) -> Row:
        """What these are fed; with `width`, of several ways only those that give so many columns."""

        def fitting(rows: Sequence[Row]) -> Row:
            if width is not None and len(rows[0].columns or ()) != width:
                raise Unclear("the table has another number of columns")
            return rows[0]

        try:
            return union([self._entered(node, fitting) for node in entries])
        except Unclear as error:
            return opaque(str(error))

    def _entered(self, node: Node, fitting: Callable[[Sequence[Row]], Row]) -> Row:
        """A sink takes columns by position: that nobody knows whose names count is no matter."""
        row = self._solved(node, fitting)
        if row.columns is None:
            nameless = self._solved(node, lambda rows: endpoints.named_row(node.operator, fitting(rows)))
            row = nameless if nameless.columns is not None else row
        return row

    def _open_flows(self, sink: Endpoint, perhaps: Sequence[str]) -> Iterator[Unresolved]:
        for id_ in perhaps:
            yield Unresolved(
                where=f"{self._found[id_].name} → {sink.name}",
                reason="the plan does not say from which operator of a vertex the rows go on",
                remedy="set pipeline.operator-chaining.enabled to false, or run one statement per job",
                endpoint=sink.id,
            )

    def _sink_columns(self, sink: Endpoint, row: Row) -> None:
        for position, column in enumerate(row.columns or ()):
            inputs = tuple(sorted(column.inputs))
            self._columns.append(OutputColumn(sink.id, position, column.name, inputs, column.unknown))
        if row.columns is None and row.unknown is not None:
            self._unresolved.append(
                Unresolved(
                    where=f"columns of {sink.name}",
                    reason=row.unknown,
                    remedy="only operators of Flink SQL print their columns; lineage of tables is there",
                    endpoint=sink.id,
                )
            )


def _loose_end(node: Node) -> Unresolved:
    return Unresolved(
        where=node.operator.text[:80],
        reason="the plan does not show where its rows go",
        remedy="a batch job shows its later vertices once they are scheduled: read it again when it is done",
    )
