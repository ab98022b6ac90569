"""The tables in a job's name: Flink names a job of SQL after what it writes, if nobody else names it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from frazil.lineage.flink.endpoints import table_path
from frazil.lineage.model import Direction, Endpoint, TracedJob

_BY_FLINK = "insert-into_"
_NUMBERED = re.compile(r"\[\d+\]")

Path = tuple[str, ...]


def named_sinks(traced: TracedJob) -> Mapping[str, Path]:
    """The full names of sinks that the plan names by their table alone, or not at all, by endpoint.

    Not those of Iceberg's sinks: they print what the table is called in its own catalog.

    Somebody may give a job a name that only begins like one of Flink's. So there must be as many tables in it
    as the job has sinks, and every sink that the planner named must be among them.
    """
    tables = [table_path(part) for part in traced.job.name.removeprefix(_BY_FLINK).split(",")]
    sinks = [endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE]
    if not traced.job.name.startswith(_BY_FLINK) or not all(tables) or len(tables) != len(sinks):
        return {}
    found: dict[str, Path] = {}
    nameless: list[Endpoint] = []
    for sink in sinks:
        matching = [path for path in tables if path == sink.path or (not sink.path and path[-1] == sink.name)]
        if len(matching) == 1:
            found[sink.id] = matching[0]
        elif matching or sink.path or _NUMBERED.search(sink.operator):
            return {}
        else:
            nameless.append(sink)
    left = [path for path in tables if path not in found.values()]
    if len(nameless) == len(left) == 1:
        found[nameless[0].id] = left[0]
    return {
        sink.id: found[sink.id]
        for sink in sinks
        if sink.id in found and not sink.path and sink.hints.get("connector") != "iceberg"
    }
