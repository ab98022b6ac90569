"""The commits of a correction: its branch is made, gets rows, is published, goes.

All are sent as those of pipelines are, and none carries a stamp: what a pipeline wrote last is found below
them. A correction is known by its id, which is in the name of its branch and in what its snapshots say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from frazil.core.correction import CORRECTION, RECIPE, Correction, Recipe, correction_branch
from frazil.core.errors import Conflict
from frazil.lake.commit import MAIN, Attempt, Staged, stage_refs, stage_unstamped
from frazil.lake.delivery import Delivery, Patience
from frazil.lake.delta import RowDelta
from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable

T = TypeVar("T")
#: Iceberg's word for the snapshot whose files a commit took over. When that one expires, Iceberg before 1.10
#: deletes all that it added, because it is not in main's history, unless the commit says so.
_PICKED = "source-snapshot-id"


class Replacement(Protocol):
    """Finds what a correction replaces, again whenever main moved."""

    def at(self, table: LakeTable) -> RowDelta:
        """For main as `table` was just loaded: `base` is its head. Conflict: it cannot be published."""


@dataclass(frozen=True)
class Published:
    """Where a correction is in main."""

    snapshot: int
    #: `fast-forward` or `overwrite`.
    how: str


@dataclass(kw_only=True)
class _Fork(Delivery[int]):
    """A branch at a snapshot of main, which then cannot expire."""

    branch: str
    snapshot: int

    def landed(self) -> int | None:
        return self.table.ref(self.branch)

    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[int]:
        if self.table.snapshot(self.snapshot) is None:
            raise Conflict(
                f"snapshot {self.snapshot} of the table {self.table}, which rows were computed from, expired "
                "meanwhile: correct it again"
            )
        part = stage_refs(
            self.table, opened[0][1], lambda refs: refs.createBranch(self.branch, self.snapshot), self.branch
        )
        return Attempt(self.snapshot, (part,))


@dataclass(kw_only=True)
class _Write(Delivery[int]):
    """The rows of a correction, on its branch."""

    correction: Correction
    recipe: Recipe
    delta: RowDelta

    @property
    def branch(self) -> str:
        return correction_branch(self.correction.id)

    def landed(self) -> int | None:
        at = self.table.ref(self.branch)
        view = None if at is None else self.table.snapshot(at)
        found = None if view is None else Correction.told(view.summary)
        return at if found is not None and found.id == self.correction.id else None

    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[int]:
        if self.table.ref(self.branch) != self.correction.fork:
            raise Conflict(
                f"the branch {self.branch} of the table {self.table} was dropped or written to by somebody "
                "else while the correction was made; nothing was changed. Correct the range again"
            )
        told = _told(self.correction, self.recipe)
        part = stage_unstamped(self.table, opened[0][1], self.delta, told, self.branch)
        assert part.snapshot_id is not None, "rows make a snapshot"
        return Attempt(part.snapshot_id, (part,))


@dataclass(kw_only=True)
class _Publish(Delivery[Published]):
    """Main and the branch change in one commit: the range is replaced and the branch is gone, or neither."""

    correction: Correction
    looks_first: ClassVar[bool] = True
    recipe: Recipe
    #: The branch's snapshot that was looked at.
    snapshot: int
    replacement: Replacement

    @property
    def branch(self) -> str:
        return correction_branch(self.correction.id)

    def landed(self) -> Published | None:
        found = published(self.table, self.correction)
        if found is None:
            return None
        return Published(found, "fast-forward" if found == self.snapshot else "overwrite")

    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[Published]:
        ((table, transaction),) = opened
        if (there := table.ref(self.branch)) != self.snapshot:
            word = "was dropped" if there is None else f"is at snapshot {there} now"
            raise Conflict(
                f"the branch {self.branch} of the table {table} {word}, so correction {self.correction.id} "
                "is not published. What others wrote to the branch is theirs to publish; drop the correction "
                "and make it again"
            )
        if table.head == self.correction.fork:
            part = stage_refs(table, transaction, self._forward, MAIN, self.branch)
            return Attempt(Published(self.snapshot, "fast-forward"), (part,))
        part = self._overwrite(table, transaction)
        assert part.snapshot_id is not None, "rows make a snapshot"
        return Attempt(Published(part.snapshot_id, "overwrite"), (part,))

    def _forward(self, refs: Any) -> Any:
        return refs.replaceBranch(MAIN, self.snapshot)

    def _overwrite(self, table: LakeTable, transaction: Any) -> Staged:
        delta, told = self.replacement.at(table), _told(self.correction, self.recipe)
        if delta.copied:
            told[_PICKED] = str(self.snapshot)
        return stage_unstamped(table, transaction, delta, told, MAIN, self.branch)


@dataclass(kw_only=True)
class _Drop(Delivery[bool]):
    looks_first: ClassVar[bool] = True
    correction: Correction
    #: The branch's snapshot that was looked at; None: whatever it is.
    snapshot: int | None
    #: It was known to be in main.
    published: bool

    @property
    def branch(self) -> str:
        return correction_branch(self.correction.id)

    def landed(self) -> bool | None:
        if self.table.ref(self.branch) is not None:
            return None
        found = None if self.published else published(self.table, self.correction)
        if found is not None:
            raise Conflict(
                f"correction {self.correction.id} of the table {self.table} was published meanwhile, as "
                f"snapshot {found}: nothing was dropped. To undo it, correct the range again, or roll the "
                "table back"
            )
        return True

    def staged(self, opened: Sequence[tuple[LakeTable, Any]]) -> Attempt[bool]:
        there = self.table.ref(self.branch)
        if self.snapshot not in (None, there):
            raise Conflict(
                f"the branch {self.branch} of the table {self.table} is at snapshot {there} now, and was at "
                f"{self.snapshot} when it was looked at; nothing was dropped. Look at it again first"
            )
        return Attempt(True, (stage_refs(self.table, opened[0][1], None, self.branch, self.branch),))


class CorrectionBranch:
    """The branch of one correction of a table. For one thread."""

    def __init__(self, table: LakeTable, correction: Correction, patience: Patience | None = None) -> None:
        self._table = table
        self._correction = correction
        self._patience = patience or Patience()
        self.name = correction_branch(correction.id)
        #: A commit of it may land yet, with whatever files it has.
        self.unsettled = False

    @property
    def folder(self) -> str:
        """Where its files lie. No pipeline can have that name, so none removes them."""
        return f"{self._table.data_location}/frazil.correction/{self._correction.id}"

    def fork(self) -> None:
        """Make it, where the correction began. Conflict: that snapshot expired."""
        _Fork(
            self._table, self._patience, "correct.fork", branch=self.name, snapshot=self._correction.fork
        ).run()

    def write(self, recipe: Recipe, delta: RowDelta) -> int:
        """Put the rows on it; returns the snapshot."""
        delivery = _Write(
            self._table,
            self._patience,
            "correct.write",
            correction=self._correction,
            recipe=recipe,
            delta=delta,
        )
        return self._settled(delivery)

    def publish(self, recipe: Recipe, snapshot: int, replacement: Replacement) -> Published:
        """Bring it into main, once. `snapshot`: that of the branch, as it was looked at."""
        delivery = _Publish(
            self._table,
            self._patience,
            "correct.publish",
            correction=self._correction,
            recipe=recipe,
            snapshot=snapshot,
            replacement=replacement,
        )
        return self._settled(delivery)

    def drop(self, snapshot: int | None = None, *, published: bool = False) -> None:
        """Take it away, if it is there. Conflict: somebody published it meanwhile, or wrote to it.

        `snapshot`: that of the branch, as it was looked at; `published`: it was known to be.
        """
        _Drop(
            self._table,
            self._patience,
            "correct.drop",
            correction=self._correction,
            snapshot=snapshot,
            published=published,
        ).run()

    def _settled(self, delivery: Delivery[T]) -> T:
        try:
            return delivery.run()
        finally:
            self.unsettled = delivery.unsettled

    def brought(self, snapshot: int) -> list[dict[str, Any]]:
        """The data files that its snapshot brought, in the JSON of the REST spec."""
        table = self._table
        with java_errors(f"reading snapshot {snapshot} of the table {table}"):
            specs = table.metadata.specsById()
            found = table.metadata.snapshot(snapshot).addedDataFiles(table.operations.io())
            texts = [table.lake.files.toJson(file, specs.get(file.specId())) for file in found]
        documents: list[dict[str, Any]] = [msgspec.json.decode(text) for text in texts]
        for document in documents:
            # Of the commit that brings it.
            document.pop("first-row-id", None)
        return documents

    def sweep(self, snapshots: Collection[int], names: str = "") -> None:
        """Remove files of the correction whose names begin so, but for those that its snapshots brought."""
        storage, kept = self._table.storage(), set[str]()
        with java_errors(f"reading the files of the table {self._table}"):
            io = self._table.operations.io()
            for number in snapshots:
                found = self._table.metadata.snapshot(number)
                if found is None:
                    # It expired, and what it had is not known: better too many files than too few.
                    return
                for file in [*found.addedDataFiles(io), *found.addedDeleteFiles(io)]:
                    kept.add(str(file.location()).rpartition("/")[2])
        ours = [(path, path.rpartition("/")[2]) for path in storage.list(f"{self.folder}/")]
        storage.delete([path for path, name in ours if name.startswith(names) and name not in kept])


def _told(correction: Correction, recipe: Recipe) -> dict[str, str]:
    return {CORRECTION: correction.encode(), RECIPE: recipe.encode()}


def published(table: LakeTable, correction: Correction) -> int | None:
    """The snapshot of main that a correction is, if it is published."""
    for view in table.ancestry():
        found = Correction.told(view.summary)
        if found is not None and found.id == correction.id:
            return view.id
        if view.id == correction.fork:
            return None
    return None
