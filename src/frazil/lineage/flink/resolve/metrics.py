"""Names of a running vertex's metrics: Kafka's connector puts the topics that it reads into them.

Flink writes `_` for dots, blanks, colons and commas in these names. So a name with `_` stands for any of
several topics, and counts only where something else tells which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOPIC = re.compile(r"^\d+\.(?P<operator>.+?)\.KafkaSourceReader\.topic\.(?P<topic>[^.]+)\.partition\.")
_FILTERED = re.compile(r"[ .:,]")


def filtered(name: str) -> str:
    """A name as it stands in a metric."""
    return _FILTERED.sub("_", name)


def topics(metrics: Iterable[str], name: str) -> set[str]:
    """Topics, filtered, that the source of that name reads; the planner adds a number to a table's name."""
    wanted = re.compile(rf"(?:Source__)?{re.escape(filtered(name))}(?:\[\d+\])?")
    found = set()
    for metric in metrics:
        match = _TOPIC.match(metric)
        if match is not None and wanted.fullmatch(match["operator"]):
            found.add(match["topic"])
    return found
