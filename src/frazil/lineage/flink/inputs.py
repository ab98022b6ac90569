"""Every way in which an operator can be fed that the plan leaves open.

A plan does not say which input of a join an edge leads to, nor, after a union, whose names count. Each way is
tried: those that the operator's own text contradicts fall away, and what the others agree on is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations

from frazil.lineage.flink.plan.graph import Edge, Graph, Node
from frazil.lineage.flink.plan.scanning import Unclear
from frazil.lineage.flink.rows import Row, agreed, opaque, union

_MOST = 256
_MOST_ORDERED = 4
#: Of looking for ways that fit.
_MOST_STEPS = 100_000


def solve(
    graph: Graph,
    edges: Sequence[Edge],
    rows: Mapping[Node, Row],
    inputs: int | None,
    derive: Callable[[Sequence[Row]], Row],
) -> Row:
    """What `derive` makes of the edges as its `inputs` (None: one for each edge), in every way that fits."""
    found: list[Row] = []
    failed: str | None = None
    try:
        ways = list(islice(_ways(graph, edges, inputs), _MOST + 1))
    except Unclear as error:
        return opaque(str(error))
    if len(ways) > _MOST:
        return opaque("there are too many ways to read how this operator is fed")
    for way in ways:
        try:
            row = derive([union([rows[node] for node in group]) for group in way])
        except Unclear as error:
            failed = failed or str(error)
            continue
        if row not in found:
            found.append(row)
    if not found:
        return opaque(failed or "the plan does not say what feeds this operator")
    return agreed(found, "the plan does not say which of several operators this column comes from")


def _ways(graph: Graph, edges: Sequence[Edge], inputs: int | None) -> Iterator[list[tuple[Node, ...]]]:
    """The operators that feed each input, for every way in which the edges can be given to the inputs."""
    wanted = len(edges) if inputs is None else inputs
    for producers in _beginnings(edges):
        for nodes in _orders(graph, producers, wanted):
            for cuts in _cuts(len(nodes), wanted):
                yield [tuple(nodes[start:end]) for start, end in cuts]


def _beginnings(edges: Sequence[Edge]) -> Iterator[list[Node]]:
    """An operator for each edge, in every way. Of edges that can begin at the same operators, it does not
    matter which begins where."""
    like = [
        next((other for other in range(number - 1, -1, -1) if edges[other].producers == edge.producers), None)
        for number, edge in enumerate(edges)
    ]
    chosen: list[int] = []
    taken: set[Node] = set()
    # The producer of the next edge to be tried.
    at = 0
    for _ in range(_MOST_STEPS):
        number = len(chosen)
        if number == len(edges):
            yield [edge.producers[index] for edge, index in zip(edges, chosen, strict=True)]
        elif at < len(edges[number].producers):
            edge = edges[number]
            if not (edge.alone and edge.producers[at] in taken):
                chosen.append(at)
                if edge.alone:
                    taken.add(edge.producers[at])
                at = _first(like, chosen)
            else:
                at += 1
            continue
        if not chosen:
            return
        last = edges[len(chosen) - 1]
        at = chosen.pop()
        if last.alone:
            taken.discard(last.producers[at])
        at += 1
    raise Unclear("there are too many ways to read how this operator is fed")


def _first(like: Sequence[int | None], chosen: Sequence[int]) -> int:
    """The first producer to be tried for the next edge."""
    other = like[len(chosen)] if len(chosen) < len(like) else None
    return 0 if other is None else chosen[other]


def _orders(graph: Graph, nodes: Sequence[Node], inputs: int) -> Iterable[Sequence[Node]]:
    """The orders in which these operators can stand; of a union only the first one's names matter."""
    if all(node.operator.number is not None and graph.consumers[node] <= 1 for node in nodes):
        return [sorted(nodes, key=lambda node: node.operator.number or 0)]
    if len(nodes) <= _MOST_ORDERED:
        return (order for order in permutations(nodes) if _numbered_so(graph, order))
    if inputs == 1:
        return ([first, *(node for node in nodes if node is not first)] for first in nodes)
    raise Unclear("there are too many ways to read how this operator is fed")


def _cuts(length: int, groups: int) -> Iterator[list[tuple[int, int]]]:
    """The ways to cut a sequence into so many groups, none of them empty."""
    if groups == 1:
        yield [(0, length)]
    elif groups == length:
        yield [(at, at + 1) for at in range(length)]
    elif groups == 2:
        for cut in range(1, length):
            yield [(0, cut), (cut, length)]


def _numbered_so(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether the planner's numbers allow this order.

    It numbers the first input with all that feeds it before the next one. Only an operator that something
    else takes from as well can have got its number earlier.
    """
    for position, node in enumerate(nodes):
        number = node.operator.number
        if number is None or graph.consumers[node] > 1:
            continue
        for earlier in nodes[:position]:
            before = earlier.operator.number
            if before is not None and before > number:
                return False
    return True
