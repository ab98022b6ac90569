"""The lanes of a loop, as each of them must know the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from frazil.core.errors import InvalidConfig
from frazil.core.stamp import Stamp
from frazil.lake.table import LakeTable


@dataclass(frozen=True)
class Neighbours:
    """A table is of one topic: several would undo what the others write."""

    #: The topics that have a lane.
    topics: Collection[str]
    #: Which topic has which table, by the table's UUID.
    _owners: dict[str, str] = field(default_factory=dict)

    def take(self, topic: str, tables: Sequence[LakeTable], stamp: Stamp | None) -> None:
        """InvalidConfig if they are another's, in this process or by the stamp of those before it."""
        owners = {self._owners.get(table.uuid, topic) for table in tables}
        if stamp is not None:
            owners |= stamp.positions.keys() & set(self.topics)
        others = sorted(owners - {topic})
        if others:
            raise InvalidConfig(
                f"{topic} has the same table as {others[0]}, {tables[0]}, and each would undo what the other "
                "writes. Give every topic a table of its own: `{schema}` and `{table}` in the table's name "
                "stand for the parts of the topic's, `{topic}` for all of it"
            )
        self._owners.update((table.uuid, topic) for table in tables)
