"""What the names of operators tell of sinks: which belong to one, and which can hand rows on to which."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.lineage.flink.plan.operators import Operator

_PART = re.compile(r"(?P<sink>.+?): (?!.*->)", re.DOTALL)
_PART_BEFORE = re.compile(r"(?:Writer|Committer|Global Committer)(?:\([^)]*\))? : (?P<sink>.+)")
_ENDING = re.compile(r"(?:.+: (?:Writer|Committer|Global Committer)|Sink: .*)", re.DOTALL)
#: The operators of Iceberg's older sink, each of which feeds the next.
_ICEBERG = ("IcebergStreamWriter", "IcebergFilesCommitter", "IcebergSink ")
#: What some connectors put behind their own operators, and never behind the planner's.
_ENDS_OF_CONNECTORS = ("Sink: end", "end: Writer")


def sink_name(operator: Operator) -> str | None:
    """The name that the parts of one sink share: `k_out[11]` of `k_out[11]: Writer`, `t` of `Writer : t`."""
    if operator.kind:
        return None
    part = _PART_BEFORE.fullmatch(operator.text) or _PART.match(operator.text)
    name = part.group("sink") if part else None
    return None if name in ("Source", "Sink") else name


def same_sink(one: Operator, other: Operator) -> bool:
    """Whether two operators are parts of the same sink by their names."""
    name = sink_name(one)
    return name is not None and name == sink_name(other)


def ends(operator: Operator) -> bool:
    """Whether it ends a sink, so that nothing need take from it."""
    return operator.kind in ("Sink", "LegacySink") or _ENDING.fullmatch(operator.text) is not None


@dataclass(frozen=True)
class Trait:
    """As much of an operator as counts for what it can take from, and hand on to."""

    #: Which operator of Iceberg's older sink it is, from 1 on, and the name that a program gave it.
    iceberg: int
    given: str
    #: Neither described nor numbered by the SQL planner.
    of_connector: bool
    ends_connector: bool
    #: A sink that the planner numbered: it takes from an operator of the planner's.
    planned_sink: bool


def trait(operator: Operator) -> Trait:
    """The trait of an operator."""
    text = operator.text.removeprefix("Sink: ")
    stages = (stage for stage, prefix in enumerate(_ICEBERG, 1) if text.startswith(prefix))
    iceberg = next(stages, 0)
    return Trait(
        iceberg=iceberg,
        given=text.removeprefix(_ICEBERG[iceberg - 1]) if iceberg in (1, 2) else "",
        of_connector=not operator.kind and operator.number is None,
        ends_connector=operator.text in _ENDS_OF_CONNECTORS,
        planned_sink=ends(operator) and (bool(operator.kind) or operator.number is not None),
    )


def hands_on(producer: Trait, head: Trait) -> bool:
    """Whether rows can go from one operator to the other, by what is known of sinks."""
    if producer.iceberg or head.iceberg > 1:
        following = producer.iceberg > 0 and head.iceberg == producer.iceberg + 1
        return following and (head.iceberg == len(_ICEBERG) or producer.given == head.given)
    if head.ends_connector:
        return producer.of_connector
    return not (producer.of_connector and head.planned_sink)


def numbered_next(producer: Operator, head: Operator) -> bool:
    """Whether a sink's number says that it takes from this operator.

    The planner numbers an operator when all that feeds it is numbered, and nothing comes between the last of
    these and the operator itself. Only an input that had its number from another use comes earlier.
    """
    return (
        trait(head).planned_sink
        and not trait(producer).planned_sink
        and producer.number is not None
        and producer.number + 1 == head.number
    )
