"""Which operators together are one sink: writer, committer and whatever a connector puts around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from frazil.lineage.flink.columns import passes_by_name
from frazil.lineage.flink.plan.graph import Graph, Node
from frazil.lineage.flink.plan.handing import same_sink

#: Behind these, rows are records of a DataStream, and any operator may change them.
_LEAVING_SQL = frozenset({"TableToDataSteam", "TableToDataStream"})


def sink_parts(graph: Graph) -> set[Node]:
    """The operators that belong to sinks."""
    takers = _takers(graph)
    parts: set[Node] = set()
    for node in reversed(graph.nodes):
        if _is_part(graph, node, takers[node], parts):
            parts.add(node)
    return parts


def find_sinks(graph: Graph, parts: Set[Node]) -> list[list[Node]]:
    """The operators of each sink, in the graph's order."""
    return _components(graph, [node for node in graph.nodes if node in parts], _takers(graph))


def loose_ends(graph: Graph, parts: Set[Node]) -> list[Node]:
    """Operators that nothing takes from and that are no sink: the plan is not whole."""
    takers = _takers(graph)
    return [node for node in graph.nodes if not takers[node] and node not in parts]


def feeders(graph: Graph, node: Node) -> list[Node]:
    """Every operator that may feed `node`."""
    if node.parent is not None:
        return [node.parent]
    return [producer for edge in graph.edges.get(node, ()) for producer in edge.producers]


def _takers(graph: Graph) -> dict[Node, list[Node]]:
    takers: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for node in graph.nodes:
        for feeder in feeders(graph, node):
            takers[feeder].append(node)
    return takers


def _is_part(graph: Graph, node: Node, takers: Sequence[Node], parts: Set[Node]) -> bool:
    if not feeders(graph, node):
        return False
    if node.operator.kind in ("Sink", "LegacySink"):
        return all(taker in parts for taker in takers)
    if node.operator.kind or passes_by_name(node.operator):
        return False
    if not takers:
        return True
    if not all(taker in parts for taker in takers):
        return False
    # SQL hands its rows to nobody but a sink. In a DataStream's job only the name tells.
    return _from_sql(graph, node) or any(same_sink(node.operator, taker.operator) for taker in takers)


def _from_sql(graph: Graph, node: Node) -> bool:
    """Whether the nearest operators above that the planner described are still in SQL."""
    waiting, seen = feeders(graph, node), set()
    if not waiting:
        return False
    while waiting:
        above = waiting.pop()
        if above in seen:
            continue
        seen.add(above)
        if above.operator.kind in _LEAVING_SQL:
            return False
        if above.operator.kind or passes_by_name(above.operator):
            continue
        further = feeders(graph, above)
        if not further:
            return False
        waiting += further
    return True


def _components(
    graph: Graph, parts: Sequence[Node], takers: Mapping[Node, Sequence[Node]]
) -> list[list[Node]]:
    """Parts that surely feed each other are one sink. Where a plan leaves open which of several writers feeds
    a committer, the committer is the sink, and what its writers take is what it may take."""
    group = {node: node for node in parts}

    def root(node: Node) -> Node:
        while group[node] is not node:
            node = group[node]
        return node

    open_ended: set[Node] = set()
    for node in parts:
        for taker in takers[node]:
            if _surely_feeds(graph, node, taker):
                group[root(taker)] = root(node)
            else:
                open_ended.add(node)
    found: dict[Node, list[Node]] = {}
    for node in parts:
        found.setdefault(root(node), []).append(node)
    return [nodes for nodes in found.values() if not open_ended & set(nodes)]


def _surely_feeds(graph: Graph, node: Node, taker: Node) -> bool:
    return taker.parent is node or any(edge.producers == (node,) for edge in graph.edges.get(taker, ()))
