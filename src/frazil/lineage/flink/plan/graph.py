"""The operators of all vertices as one graph.

Inside a vertex the plan's tree says which operator feeds which. Between vertices it only says which vertex
feeds which, so an edge may begin at more than one operator of the sending vertex. `Edge.producers` holds
every operator that it can begin at; what is true for all of them is certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from frazil.lineage.flink.plan.handing import Trait, ends, hands_on, numbered_next, sink_name, trait
from frazil.lineage.flink.plan.operators import Operator
from frazil.lineage.flink.plan.reading import Plan, PlanVertex


@dataclass(frozen=True, eq=False)
class Node:
    """An operator in its vertex, and the operator there that feeds it."""

    vertex: str
    operator: Operator
    parent: Node | None


@dataclass(frozen=True, eq=False)
class Edge:
    """What a vertex's first operator takes from another vertex, or from a source that runs inside it."""

    producers: tuple[Node, ...]
    #: Whether no other edge begins where this one does.
    alone: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in such an order that each comes after all that can feed it."""

    nodes: tuple[Node, ...]
    #: The edges into the first operator of each vertex.
    edges: dict[Node, tuple[Edge, ...]]
    #: How many operators may take what a node sends, counting every edge that can begin there.
    consumers: dict[Node, int]


def build_graph(plan: Plan) -> Graph:
    """The graph of a plan; vertices that feed themselves come last, with the edges that could be ordered."""
    vertices = {vertex.id: vertex for vertex in plan.vertices}
    takers: dict[str, list[PlanVertex]] = {}
    for vertex in vertices.values():
        for id_ in vertex.inputs:
            takers.setdefault(id_, []).append(vertex)
    senders: dict[str, _Sender] = {}
    heads: dict[str, list[Node]] = {}
    nodes: list[Node] = []
    edges: dict[Node, tuple[Edge, ...]] = {}
    for vertex in _ordered(vertices):
        chain: list[Node] = []
        for chained in vertex.chain:
            parent = chain[chained.parent] if chained.parent is not None else None
            chain.append(Node(vertex.id, chained.operator, parent))
        if not chain:
            continue
        inside = [Node(vertex.id, source, None) for source in chain[0].operator.sources]
        sending = [id_ for id_ in vertex.inputs if id_ in senders]
        edges[chain[0]] = (
            *(senders[id_].edge(chain[0]) for id_ in sending),
            *(Edge((source,)) for source in inside),
        )
        for id_ in sending:
            heads.setdefault(id_, []).append(chain[0])
        senders[vertex.id] = _Sender(chain, takers.get(vertex.id, ()))
        nodes += [*inside, *chain]
    for id_, fed in heads.items():
        fed = list(dict.fromkeys(fed))
        _share_out(fed, edges)
        _settle(senders[id_], fed, edges)
        _share_out(fed, edges)
    return Graph(tuple(nodes), edges, _consumers(nodes, edges))


def _ordered(vertices: dict[str, PlanVertex]) -> Iterator[PlanVertex]:
    """Vertices after those that feed them; of a circle, in the plan's order."""
    waiting = dict(vertices)
    while waiting:
        ready = [vertex for vertex in waiting.values() if not any(id_ in waiting for id_ in vertex.inputs)]
        for vertex in ready or list(waiting.values())[:1]:
            yield waiting.pop(vertex.id)


class _Sender:
    """A vertex that others take from, and the operators at which the edges to these can begin.

    An operator that nothing in its vertex takes from must send elsewhere, unless it ends a sink. So if there
    are as many of those as edges, the edges begin at them, and otherwise they can begin anywhere.
    """

    def __init__(self, chain: Sequence[Node], takers: Iterable[PlanVertex]) -> None:
        self._chain = chain
        parents = {node.parent for node in chain}
        self._last = {node for node in chain if node not in parents}
        self._parts: dict[str | None, list[Node]] = {}
        for node in chain:
            self._parts.setdefault(sink_name(node.operator), []).append(node)
        self._parts.pop(None, None)
        self._sending = [(node, trait(node.operator)) for node in chain if not ends(node.operator)]
        self._able: dict[Trait, list[Node]] = {}
        heads = (taker.chain[0].operator for taker in takers if taker.chain)
        self._waiting = Counter(trait(head) for head in heads if sink_name(head) not in self._parts)

    def edge(self, head: Node) -> Edge:
        """The edge from this vertex to the first operator of another."""
        if parts := self._parts.get(sink_name(head.operator)):
            return Edge(tuple(node for node in parts if node in self._last) or tuple(parts))
        able = self._able_to(trait(head.operator))
        leaves = [node for node in able if node in self._last]
        edges = sum(
            count
            for taker, count in self._waiting.items()
            if not set(leaves).isdisjoint(self._able_to(taker))
        )
        one_each = bool(leaves) and edges <= len(leaves)
        begins = leaves if one_each else able
        before = [node for node in begins if numbered_next(node.operator, head.operator)]
        ordered = before or [node for node in begins if _in_order(node, head)]
        return Edge(tuple(ordered or begins), alone=one_each)

    def unended(self) -> set[Node]:
        """The operators that must send elsewhere."""
        return {node for node, _ in self._sending if node in self._last}

    def _able_to(self, head: Trait) -> list[Node]:
        """The operators that can send rows to one of such a trait."""
        if head not in self._able:
            fitting = [node for node, own in self._sending if hands_on(own, head)]
            self._able[head] = fitting or [node for node, _ in self._sending] or list(self._chain)
        return self._able[head]


def _settle(sender: _Sender, heads: Sequence[Node], edges: dict[Node, tuple[Edge, ...]]) -> None:
    """Where an operator must send elsewhere and only one edge can begin there, that edge does."""
    leaves = sender.unended()
    while leaves:
        open_to: dict[Node, list[tuple[Node, Edge]]] = {leaf: [] for leaf in leaves}
        for head in heads:
            for edge in edges[head]:
                for producer in edge.producers:
                    if producer in open_to:
                        open_to[producer].append((head, edge))
        settled = {leaf: able[0] for leaf, able in open_to.items() if len(able) == 1}
        if not settled:
            return
        for leaf, (head, edge) in settled.items():
            settled_edge = Edge((leaf,), edge.alone)
            edges[head] = tuple(settled_edge if other is edge else other for other in edges[head])
        leaves -= set(settled)


def _share_out(heads: Sequence[Node], edges: dict[Node, tuple[Edge, ...]]) -> None:
    """Where as many edges can begin at some operators as these are, no other edge begins there, and of those
    that lead to the same operator each begins at one of them."""
    while full := _full(edge for head in heads for edge in edges[head]):
        taken = frozenset(node for producers in full for node in producers)
        left = {head: tuple(_without(edge, full, taken) for edge in edges[head]) for head in heads}
        if all(left[head] == edges[head] for head in heads):
            break
        edges.update(left)
    for head in heads:
        waiting = {producers: iter(producers) for producers in _full(edges[head])}
        edges[head] = tuple(
            Edge((next(waiting[edge.producers]),), alone=True)
            if edge.alone and edge.producers in waiting
            else edge
            for edge in edges[head]
        )


def _full(edges: Iterable[Edge]) -> set[tuple[Node, ...]]:
    """Operators at which as many edges can begin, and do."""
    counted = Counter(edge.producers for edge in edges if edge.alone)
    return {producers for producers, count in counted.items() if count == len(producers)}


def _without(edge: Edge, full: Set[tuple[Node, ...]], taken: Set[Node]) -> Edge:
    if not edge.alone or edge.producers in full:
        return edge
    left = tuple(node for node in edge.producers if node not in taken)
    return Edge(left, alone=True) if left and left != edge.producers else edge


def _in_order(producer: Node, consumer: Node) -> bool:
    """The planner numbers an operator after all that feed it."""
    before, after = producer.operator.number, consumer.operator.number
    return before is None or after is None or before < after


def _consumers(nodes: list[Node], edges: dict[Node, tuple[Edge, ...]]) -> dict[Node, int]:
    counted = dict.fromkeys(nodes, 0)
    for node in nodes:
        if node.parent is not None:
            counted[node.parent] += 1
        for edge in edges.get(node, ()):
            for producer in edge.producers:
                counted[producer] += 1
    return counted
