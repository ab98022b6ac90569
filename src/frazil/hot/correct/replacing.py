"""What a correction replaces in main: found again whenever main moved, computed again only if it must be.

Each look is at one head of main, which the commit then asserts; so nothing that others did in between is
lost. From one look to the next, the changelog tells whether rows of the range came or went.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from frazil.core.correction import Recipe
from frazil.core.errors import Conflict, HistoryChanged, Unsupported
from frazil.hot.changes import changes
from frazil.hot.correct.place import Place, Selection, positions
from frazil.hot.correct.rows import as_error, computed, inside, require_free, write_rows
from frazil.lake.changelog_pairs import CHANGE_TYPE, INSERT
from frazil.lake.delta import RowDelta
from frazil.lake.files import DataFile
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Say = Callable[[str], None]
_FIRST_WITH_DELETES = 2


@dataclass
class Coming:
    """The rows that come: files that are written, and the same as a frame."""

    frame: Callable[[], DataFrame]
    files: Sequence[DataFile] = ()
    #: Those of the branch.
    copied: Sequence[dict[str, Any]] = ()


class Range(Protocol):
    """Which rows of a table a correction is about."""

    def select(self, snapshot: int) -> Selection:
        """Those of a snapshot."""

    def before(self, frame: DataFrame, snapshot: int) -> DataFrame:
        """Those of a frame of a snapshot, which tells where its rows lie."""

    def after(self, frame: DataFrame) -> DataFrame:
        """The same where the correction is in it."""

    def changed(self, since: int, until: int, coming: Coming) -> str | None:
        """Whether they are others than they were, or what comes does not fit any more; and why."""

    def recompute(self, snapshot: int, prefix: str) -> Coming:
        """What they should be instead. Conflict: that cannot be known any more."""


@dataclass
class PredicateRange:
    """Rows for which a predicate is true, computed by a query."""

    place: Place
    recipe: Recipe
    kafka: Mapping[str, str]

    def before(self, frame: DataFrame, snapshot: int) -> DataFrame:
        return self.after(frame)

    def after(self, frame: DataFrame) -> DataFrame:
        return frame.where(inside(self.recipe.where))

    def select(self, snapshot: int) -> Selection:
        hits = positions(self.after(self.place.frame(snapshot, place=True)))
        return self.place.selection(snapshot, hits)

    def changed(self, since: int, until: int, coming: Coming) -> str | None:
        place = self.place
        found = changes(place.spark, place.full_name, since=since, until=until, key=(), catalog=place.client)
        if not self.after(found).isEmpty():
            return "rows of the range came or went"
        if place.key:
            try:
                require_free(place, coming.frame(), found.where(f"{CHANGE_TYPE} = '{INSERT}'"), "now")
            except Conflict:
                return "rows came with keys of the correction"
        return None

    def recompute(self, snapshot: int, prefix: str) -> Coming:
        frame = computed(self.place, snapshot, self.recipe, self.kafka)
        return Coming(lambda: frame, write_rows(self.place.table, frame, prefix))


class Replacing:
    """The `Replacement` of one correction; it begins at the fork, with what its branch has."""

    def __init__(self, place: Place, about: Range, coming: Coming, fork: int, folder: str, say: Say) -> None:
        self._place = place
        self._range = about
        self._coming = coming
        self._seen = fork
        self._selection: Selection | None = None
        self._say = say
        self._tries = 0
        #: What names of its files begin with.
        self.names = f"p-{secrets.token_hex(4)}"
        self._folder = folder
        self.recomputed = False

    def at(self, table: LakeTable) -> RowDelta:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        self._place.reload()
        head = table.head
        if head is None:
            raise _rolled_back(table, self._seen)
        self._tries += 1
        try:
            self._look(table, head)
            assert self._selection is not None, "it was just looked at"
            return replaced(self._place, self._selection, self._coming, self._prefix)
        except HistoryChanged:
            raise _rolled_back(table, self._seen) from None
        except (Py4JError, PySparkException) as error:
            raise as_error(error) from None

    @property
    def _prefix(self) -> str:
        return f"{self._folder}/{self.names}-{self._tries:03d}"

    def _look(self, table: LakeTable, head: int) -> None:
        reason = None if head == self._seen else self._range.changed(self._seen, head, self._coming)
        if reason is not None:
            self._say(f"{table}: {reason} after snapshot {self._seen}: computing them again at {head}")
            self._coming = self._range.recompute(head, f"{self._prefix}-rows")
            self.recomputed = True
        known = self._selection
        if reason is None and known is not None and self._place.unmoved(known, head):
            self._selection = Selection(head, known.hits, known.targets)
        else:
            self._selection = self._range.select(head)
        self._seen = head


def replaced(place: Place, chosen: Selection, coming: Coming, prefix: str) -> RowDelta:
    """One commit that takes rows away and brings others."""
    if place.format_version < _FIRST_WITH_DELETES:
        raise Unsupported(
            f"the table {place} is of format {place.format_version}, in which rows cannot be replaced: "
            "upgrade it (ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2'))"
        )
    gone = place.removed(chosen, prefix)
    return RowDelta(
        chosen.snapshot, coming.files, gone.deletes, gone.replaced, gone.removed, copied=coming.copied
    )


def _rolled_back(table: LakeTable, seen: int) -> Conflict:
    return Conflict(
        f"snapshot {seen} is not in the history of {table} any more: it was rolled back, so what was "
        "computed from it is not published. Drop the correction and make it again"
    )
