"""How far the slot may be, so that one that somebody else moved or made anew is noticed."""

from __future__ import annotations

import re

from frazil.stream.postgres.database import Database, quote
from frazil.stream.postgres.source import PostgresSource

_NOTE = re.compile(r"frazil: slot (\S+) with the stamp at (\d+) was moved to (\d+)")


class SlotNote:
    """The slot moves with the stamp, which knows how far. While there is nothing to stamp it has to move as
    well; that is noted down before, in the comment of the publication."""

    def __init__(self, database: Database, source: PostgresSource, stamped: int) -> None:
        self._database = database
        self._source = source
        self.stamped = stamped
        self._moved = 0
        self._moved_with = -1

    @property
    def reach(self) -> int:
        """As far as it may be moved now."""
        return max(self.stamped, self._moved if self._moved_with == self.stamped else 0)

    def allows(self, confirmed: int) -> bool:
        """Whether a slot that is there now can be the one that we left."""
        if confirmed <= self.stamped:
            return True
        owned, comment = self._look()
        match = _NOTE.fullmatch(comment)
        if match is not None and match[1] == self._source.slot:
            self._moved_with, self._moved = int(match[2]), int(match[3])
        # Where notes cannot be left, slots are moved without one.
        return confirmed <= self.reach or not owned

    def move(self, lsn: int) -> None:
        owned, comment = self._look()
        match = _NOTE.fullmatch(comment)
        if owned and (not comment or (match is not None and match[1] == self._source.slot)):
            text = f"frazil: slot {self._source.slot} with the stamp at {self.stamped} was moved to {lsn}"
            self._database.run(f"COMMENT ON PUBLICATION {quote(self._source.publication)} IS '{text}'")
        elif owned:
            # Somebody's own words, or the note of another pipeline: the slot stays where it is.
            return
        self._moved, self._moved_with = lsn, self.stamped

    def _look(self) -> tuple[bool, str]:
        rows = self._database.rows(
            "SELECT pg_has_role(pubowner, 'MEMBER')::text, "
            "coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = ?",
            self._source.publication,
        )
        return (rows[0][0] == "true", rows[0][1] or "") if rows else (False, "")
