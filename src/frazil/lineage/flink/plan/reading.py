"""The JSON of `/jobs/:id/plan` as vertices, each with the operators that are chained in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.core.errors import InvalidInput
from frazil.lineage.flink.plan.operators import Operator, read_operator
from frazil.lineage.flink.plan.scanning import Unclear, top_level, without_options

_BRANCH = re.compile(r"((?::  |   )*)(?::- |\+- )")


@dataclass(frozen=True)
class Chained:
    """An operator in its vertex: the index of the operator that feeds it there, None for the first."""

    operator: Operator
    parent: int | None


@dataclass(frozen=True)
class PlanVertex:
    """A node of the plan: its operators, the first of which takes what the vertices in `inputs` send."""

    id: str
    name: str
    chain: tuple[Chained, ...]
    inputs: tuple[str, ...] = ()
    parallelism: int | None = None


@dataclass(frozen=True)
class Plan:
    """A job's plan."""

    job_id: str
    name: str
    streaming: bool | None
    vertices: tuple[PlanVertex, ...]


def read_plan(answer: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Plan:
    """The plan in a JobManager's answer; `names` are the vertices' names, which the plan itself leaves out.

    Takes the answer of `/jobs/:id/plan`, that of `/jobs/:id`, which holds the plan too, or the plan alone.
    That of a job that failed before it was made has no vertices.
    """
    plan = answer.get("plan", answer)
    if "plan" in answer and not plan:
        plan = {"nodes": []}
    nodes = plan.get("nodes") if isinstance(plan, Mapping) else None
    if not isinstance(nodes, list):
        raise InvalidInput(
            f"this is not a JobManager's plan: it has no list of nodes, only {sorted(answer)[:8]}; "
            "give what /jobs/:id/plan or /jobs/:id answered"
        )
    known = dict(names or {})
    for vertex in answer.get("vertices") or ():
        known.setdefault(str(vertex.get("id")), str(vertex.get("name", "")))
    kind = str(plan.get("type") or answer.get("job-type") or "").upper()
    return Plan(
        job_id=str(plan.get("jid") or answer.get("jid") or ""),
        name=str(plan.get("name") or answer.get("name") or ""),
        streaming={"STREAMING": True, "BATCH": False}.get(kind),
        vertices=tuple(_vertex(node, known) for node in nodes if isinstance(node, Mapping)),
    )


def _vertex(node: Mapping[str, Any], names: Mapping[str, str]) -> PlanVertex:
    id_ = str(node.get("id"))
    chain = read_description(str(node.get("description") or names.get(id_) or ""))
    inputs = sorted(node.get("inputs") or (), key=lambda edge: int(edge.get("num") or 0))
    return PlanVertex(
        id=id_,
        name=without_options(names.get(id_, "")) or " -> ".join(chained.operator.text for chained in chain),
        chain=chain,
        inputs=tuple(str(edge.get("id")) for edge in inputs),
        parallelism=node.get("parallelism"),
    )


def read_description(description: str) -> tuple[Chained, ...]:
    """The operators of a vertex, from the tree or the arrows in its description.

    Each line of a tree has an end, so that an arrow in it belongs to a name.
    """
    lines = [html.unescape(line) for line in description.removesuffix("<br/>").split("<br/>")]
    if len(lines) == 1 and not description.endswith("<br/>"):
        return tuple(_arrows(lines[0]))
    return tuple(_tree(lines))


def _tree(lines: list[str]) -> Iterator[Chained]:
    """The operators of a tree whose branches lead to what an operator feeds.

    A line break inside a string literal looks like the end of a line: a line that does not begin as a branch
    can, no deeper than one below the line above, goes on with the text before it.
    """
    entries: list[tuple[int, str]] = []
    for line in lines:
        branch = _BRANCH.match(line)
        depth = len(branch.group(1)) // 3 + 1 if branch else 0
        if entries and (branch is None or depth > entries[-1][0] + 1):
            entries[-1] = (entries[-1][0], f"{entries[-1][1]}\n{line}")
        else:
            entries.append((depth, line[branch.end() :] if branch else line))
    last_at: dict[int, int] = {}
    for index, (depth, text) in enumerate(entries):
        last_at[depth] = index
        yield Chained(read_operator(text), last_at[depth - 1] if depth else None)


def _arrows(text: str) -> list[Chained]:
    """The operators of `a -> b -> (c, d -> e)`: how a vertex is named, and described in cascading mode."""
    found: list[Chained] = []
    try:
        _cascade(text, found)
    except Unclear:
        shown = without_options(text)
        return [Chained(Operator(shown, unclear=f"text that cannot be read: {shown[:80]}"), None)]
    return found


def _cascade(text: str, found: list[Chained]) -> None:
    waiting: list[tuple[str, int | None]] = [(text, None)]
    while waiting:
        text, parent = waiting.pop()
        arrow = next((at for at in top_level(text) if text.startswith(" -> ", at)), None)
        found.append(Chained(read_operator(text if arrow is None else text[:arrow]), parent))
        if arrow is None:
            continue
        rest = text[arrow + 4 :]
        parts = _branches(rest[1:-1]) if rest.startswith("(") and rest.endswith(")") else [rest]
        waiting += [(part, len(found) - 1) for part in reversed(parts)]


def _branches(text: str) -> list[str]:
    """The parts between commas; some releases put a blank before the comma."""
    parts, start = [], 0
    for at in top_level(text):
        if text[at] == ",":
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
