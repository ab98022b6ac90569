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


def read_topics(metrics: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Operator and topic, both filtered, of what is read: of a vertex's thousands of names, what counts."""
    matches = map(_TOPIC.match, metrics)
    return frozenset((match["operator"], match["topic"]) for match in matches if match is not None)


def topics(read: Iterable[tuple[str, str]], name: str) -> set[str]:
    """Topics, filtered, that the source of that name reads; the planner adds a number to a table's name."""
    wanted = re.compile(rf"(?:Source__)?{re.escape(filtered(name))}(?:\[\d+\])?")
    return {topic for operator, topic in read if wanted.fullmatch(operator)}
