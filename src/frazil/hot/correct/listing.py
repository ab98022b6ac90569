"""Which corrections a table has: its branches and what its snapshots say. There is no other register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from frazil.client.naming import identifier
from frazil.core.correction import RECIPE, Correction, Recipe, correction_branch, correction_of
from frazil.core.errors import NotFound
from frazil.core.names import show
from frazil.core.rebuild import REBUILD, Record
from frazil.hot.read.connect import CatalogLike, connected
from frazil.lake.history import TableHistory, TableSnapshot


class State(StrEnum):
    #: Its rows are on the branch, and can be published.
    READY = "ready"
    #: Whoever made it ended before its rows were there: drop it.
    UNFINISHED = "unfinished"
    #: Somebody else wrote to the branch, or main was rolled back to before it: drop it.
    STALE = "stale"
    PUBLISHED = "published"


@dataclass(frozen=True)
class CorrectionInfo:
    """One correction as the table's metadata tells of it."""

    id: str
    table: str
    state: State
    #: Where it began, and where its rows are: the branch's snapshot, or main's once it is published.
    fork: int | None
    snapshot: int | None
    time: datetime
    #: None: nothing is known of it but its branch.
    range: str | None = None
    recipe: Recipe | None = None
    #: The pipeline that `frazil rebuild` made all of the table of; None: it is no rebuild.
    rebuild: str | None = None

    @property
    def scope(self) -> str | None:
        """The range, for people."""
        return self.range if self.rebuild is None else f"all rows: a rebuild of pipeline {self.rebuild}"

    @property
    def branch(self) -> str:
        return correction_branch(self.id)

    @property
    def record(self) -> Correction:
        assert self.range is not None, "only of one that has rows"
        assert self.fork is not None, "where there is a range there is a fork"
        return Correction(id=self.id, range=self.range, fork=self.fork)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        recipe = self.recipe
        return {
            "id": self.id,
            "table": self.table,
            "state": str(self.state),
            "branch": None if self.state is State.PUBLISHED else self.branch,
            "range": self.range,
            "sql": None if recipe is None else recipe.sql or None,
            "pipeline": None if recipe is None else recipe.pipeline or None,
            "rebuild": self.rebuild,
            "fork": self.fork,
            "snapshot": self.snapshot,
            "time": self.time.isoformat(),
        }


def corrections(name: str, *, catalog: CatalogLike | None = None) -> list[CorrectionInfo]:
    """The corrections of a table, oldest first: those on branches, and those that main's history shows.

    >>> corrections("shop.orders")  # doctest: +SKIP
    """
    namespace, table = identifier(name)
    with connected(catalog) as client:
        metadata = client.tables.load(namespace, table).metadata
    return listed(metadata, show(namespace, table))


def find_correction(name: str, correction_id: str, *, catalog: CatalogLike | None = None) -> CorrectionInfo:
    """One of them; NotFound."""
    return chosen(corrections(name, catalog=catalog), name, correction_id)


def chosen(found: list[CorrectionInfo], table: str, correction_id: str) -> CorrectionInfo:
    correction_branch(correction_id)
    for one in found:
        if one.id == correction_id:
            return one
    known = ", ".join(one.id for one in found) or "none"
    raise NotFound(
        f"the table {table} has no correction {correction_id}: it was dropped, or was published by a "
        f"snapshot that expired. There are: {known}"
    )


def listed(metadata: Mapping[str, Any], table: str) -> list[CorrectionInfo]:
    """Of a metadata document."""
    history = TableHistory(metadata)
    line = list(history.ancestry())
    found = [_published(table, one) for one in line]
    main = {one.id for one in line}
    for branch in history.refs():
        correction_id = correction_of(branch)
        if correction_id is not None:
            found.append(_waiting(table, correction_id, history, main))
    return sorted((one for one in found if one is not None), key=lambda one: (one.time, one.id))


def _published(table: str, snapshot: TableSnapshot) -> CorrectionInfo | None:
    record = Correction.told(snapshot.summary)
    if record is None:
        return None
    rebuilt = Record.decode(snapshot.summary.get(REBUILD))
    return CorrectionInfo(
        record.id,
        table,
        State.PUBLISHED,
        record.fork,
        snapshot.id,
        snapshot.time,
        record.range,
        _recipe(snapshot),
        None if rebuilt is None else rebuilt.pipeline,
    )


def _waiting(table: str, correction_id: str, history: TableHistory, main: set[int]) -> CorrectionInfo | None:
    at = history.ref(correction_branch(correction_id))
    snapshot = None if at is None else history.snapshot(at)
    if snapshot is None:
        return None
    record, recipe = Correction.told(snapshot.summary), _recipe(snapshot)
    if snapshot.id in main:
        if record is not None and record.id == correction_id:
            # Somebody else moved main to it.
            return None
        return CorrectionInfo(correction_id, table, State.UNFINISHED, snapshot.id, None, snapshot.time)
    if record is None or record.id != correction_id or recipe is None:
        return CorrectionInfo(correction_id, table, State.STALE, None, snapshot.id, snapshot.time)
    state = State.READY if record.fork in main else State.STALE
    return CorrectionInfo(
        correction_id, table, state, record.fork, snapshot.id, snapshot.time, record.range, recipe
    )


def _recipe(snapshot: TableSnapshot) -> Recipe | None:
    text = snapshot.summary.get(RECIPE)
    return None if text is None else Recipe.decode(text)
