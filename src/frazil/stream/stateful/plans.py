"""What a transform does with its stream, by Spark's plan of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUPS = frozenset({"Aggregate", "Distinct", "DeduplicateWithinWatermark"})
_DEDUPLICATE, _JOIN = "Deduplicate", "Join"
#: The user's own state: what it lets go when is the user's matter.
_FREE = ("FlatMapGroups", "TransformWithState")
#: What looks at other records of a batch, and that Structured Streaming does not have or keeps no state for.
_AROUND = frozenset(
    {
        "Window",
        "WindowInPandas",
        "ArrowWindowPython",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Tail",
        "Sample",
        "Except",
        "Intersect",
        "MapGroups",
        "CoGroup",
    }
)
_WATERMARK = "spark.watermarkDelayMs"


def keeps_state(frame: DataFrame) -> bool:
    """Whether what a batch gives depends on the batches before."""
    return any(_is_stateful(node) for node in _nodes(_analyzed(frame)))


def is_complete(frame: DataFrame) -> bool:
    """Whether no row at or below the watermark of a batch can come after that batch.

    So it is where every record passes an operator that drops late ones. A join of two streams holds records
    back for as long as its condition says, so nothing can be told behind it.
    """
    plan = _analyzed(frame)
    named = {node.id(): node for node in _nodes(plan) if node.nodeName() == "CTERelationDef"}
    return not any(_is_loose(node) for node in _nodes(plan)) and _is_guarded(plan, named)


def is_by_record(frame: DataFrame) -> bool:
    """Whether each record becomes rows for itself, however the stream is cut into batches."""
    return not keeps_state(frame) and not any(_looks_around(node) for node in _nodes(_analyzed(frame)))


def _looks_around(node: Any) -> bool:
    return node.nodeName() in _AROUND and bool(node.isStreaming())


def _is_guarded(node: Any, named: dict[int, Any]) -> bool:
    name = node.nodeName()
    if name in _GROUPS or (name == _DEDUPLICATE and _has_event_time(node)):
        return True
    if name == "CTERelationRef":
        return _is_guarded(named[node.cteId()], named)
    below = _children(node)
    if name == "WithCTE":
        below = below[-1:]
    streams = [child for child in below if child.isStreaming()]
    return bool(streams) and all(_is_guarded(child, named) for child in streams)


def _is_stateful(node: Any) -> bool:
    grouped = node.nodeName() in {*_GROUPS, _DEDUPLICATE} and node.isStreaming()
    return grouped or _is_loose(node)


def _is_loose(node: Any) -> bool:
    name: str = node.nodeName()
    if name == _JOIN:
        return all(child.isStreaming() for child in _children(node))
    return name.startswith(_FREE) and bool(node.isStreaming())


def _has_event_time(node: Any) -> bool:
    keys = node.keys()
    return any(keys.apply(index).metadata().contains(_WATERMARK) for index in range(keys.size()))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def _nodes(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _children(node)


def _children(node: Any) -> list[Any]:
    inside = node.children()
    return [inside.apply(index) for index in range(inside.size())]
