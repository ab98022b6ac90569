"""`frazil.correct`: compute a range of a table again, on a branch; publish it, or drop it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.client import Client
from frazil.client.naming import identifier
from frazil.core.correction import Correction, Recipe, new_id, show_offsets
from frazil.core.errors import Conflict, FrazilError, InvalidInput
from frazil.core.failpoints import reach
from frazil.hot.correct.difference import Difference, difference
from frazil.hot.correct.listing import CorrectionInfo, State, chosen, listed
from frazil.hot.correct.log_rows import OffsetsRange, log_rows, pipeline_name, writer_of
from frazil.hot.correct.offsets import Offsets, find_range, parse_ranges, range_files
from frazil.hot.correct.place import Place
from frazil.hot.correct.replacing import Coming, PredicateRange, Replacing, Say, replaced
from frazil.hot.correct.rows import computed, require_range, write_rows
from frazil.hot.read.connect import CatalogLike, connected
from frazil.lake.catalog import Lake
from frazil.lake.correction import CorrectionBranch
from frazil.stream.config.model import CatalogConfig, PipelineConfig
from frazil.stream.config.python import gather

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Corrected:
    """What became of a correction."""

    correction: CorrectionInfo
    #: Against main as it was before: where it began, or where it was published. None: nothing was done.
    difference: Difference | None = None
    #: `fast-forward`, `overwrite` or `already`; None: it is not published.
    published: str | None = None
    #: Rows of the range had changed since, and it was computed again.
    recomputed: bool = False

    def document(self) -> dict[str, Any]:
        """For JSON."""
        shown = None if self.difference is None else self.difference.document()
        return {
            **self.correction.document(),
            "published": self.published,
            "recomputed": self.recomputed,
            "difference": shown,
        }


def correct(
    spark: SparkSession,
    name: str,
    *,
    where: str | None = None,
    sql: str | None = None,
    fresh: bool = False,
    offsets: str | Sequence[str] | None = None,
    pipeline: PipelineConfig | None = None,
    publish: bool = False,
    catalog: CatalogLike | None = None,
    catalog_name: str | None = None,
    kafka: Mapping[str, str] | None = None,
    say: Say = lambda _text: None,
) -> Corrected:
    """Replace the rows for which `where` is true by those that `sql` gives, on a branch.

    `where` is a predicate over the table's columns; `sql` may read any table of the catalog. The corrected
    table itself is read as Iceberg has it; other hot tables with the tails of their logs if `fresh`.

    Instead of both, `offsets` (`orders=0:5-9,1:0-3`) are a range of the log that `pipeline` appends to the
    table; its rows are made again as the pipeline makes them now. A hot table without a key needs no
    `pipeline`. Its transform calls the catalog `catalog_name`; None: as `catalog` says, else `lake`. With
    `publish` the correction is brought into main at once. InvalidInput: rows do not fit, and nothing was
    changed.

    >>> made = frazil.correct(
    ...     spark, "shop.orders", where="day = DATE '2026-01-01'", sql="SELECT …"
    ... )  # doctest: +SKIP
    >>> made.difference.total.changed  # doctest: +SKIP
    12
    """
    in_log = offsets is not None
    if {where is None, sql is None} != {in_log} or (pipeline is not None and not in_log):
        raise InvalidInput(
            "a range is given by a predicate and a query (where, sql), or by offsets of the log and, but for "
            "hot tables, the pipeline that reads it (offsets, pipeline)"
        )
    wanted = None if offsets is None else parse_ranges([offsets] if isinstance(offsets, str) else offsets)
    with _opened(spark, name, catalog) as place:
        fork = place.table.head
        if fork is None:
            raise InvalidInput(f"the table {place} has no snapshot yet: there is nothing to correct")
        say(f"{place}: computing the range at snapshot {fork}")
        if wanted is None:
            recipe = Recipe(where=where or "", sql=sql or "", fresh=fresh, zone=place.zone)
            require_range(place, recipe.where, fork)
            rows = computed(place, fork, recipe, kafka or {})
        else:
            config, named = _as_given(pipeline, catalog, kafka)
            recipe, rows = _of_log(place, fork, wanted, config, kafka or {}, catalog_name or named)
        made = _made(place, fork, recipe, rows, say)
        return _published(place, made.correction, kafka or {}, say) if publish else made


def publish(
    spark: SparkSession,
    name: str,
    correction_id: str,
    *,
    catalog: CatalogLike | None = None,
    kafka: Mapping[str, str] | None = None,
    say: Say = lambda _text: None,
) -> Corrected:
    """Bring a correction into main, once; a second time does nothing.

    Where main stood still since, it goes on to the branch; else one commit replaces the range, and rows of
    it that came or went meanwhile are computed again first. Writers go on all the time.
    """
    with _opened(spark, name, catalog) as place:
        found = chosen(listed(place.metadata, str(place)), str(place), correction_id)
        if found.recipe is not None:
            # The range is what it was, wherever it is published.
            place.use_zone(found.recipe.zone)
        return _published(place, found, kafka or {}, say)


def drop(
    spark: SparkSession, name: str, correction_id: str, *, catalog: CatalogLike | None = None
) -> CorrectionInfo:
    """Take the branch of a correction away, with files that nobody has; what is published stays."""
    with _opened(spark, name, catalog) as place:
        found = chosen(listed(place.metadata, str(place)), str(place), correction_id)
        if found.state is State.PUBLISHED and place.history.ref(found.branch) is None:
            raise Conflict(
                f"correction {found.id} of {place} is published, as snapshot {found.snapshot}: there is "
                "nothing to drop. To undo it, correct the range again, or roll the table back"
            )
        record = Correction(id=found.id, range=found.range or "", fork=found.fork or 0)
        branch = CorrectionBranch(place.table, record)
        branch.drop(place.history.ref(found.branch), published=found.state is State.PUBLISHED)
        # Those of a publication that nobody knows the end of may be in main any time.
        branch.sweep([] if found.snapshot is None else [found.snapshot], "b-")
        return found


@contextmanager
def _opened(spark: SparkSession, name: str, catalog: CatalogLike | None) -> Iterator[Place]:
    namespace, table = identifier(name)
    with connected(catalog, spark) as client, _lake(spark, client) as lake:
        yield Place(spark, client, lake.load(namespace, table))


@contextmanager
def _lake(spark: SparkSession, client: Client) -> Iterator[Lake]:
    lake = Lake(spark, client)
    try:
        yield lake
    finally:
        lake.close()


def _as_given(
    pipeline: PipelineConfig | None, catalog: CatalogLike | None, kafka: Mapping[str, str] | None
) -> tuple[PipelineConfig | None, str]:
    """The pipeline as `frazil.run` would have it, and what its transform calls the catalog."""
    if pipeline is None:
        return None, CatalogConfig.name
    found = gather([pipeline], catalog=None if isinstance(catalog, Client) else catalog, kafka=kafka)
    return found.pipelines[0], found.catalog.name


def _of_log(
    place: Place,
    fork: int,
    wanted: Offsets,
    config: PipelineConfig | None,
    kafka: Mapping[str, str],
    catalog: str,
) -> tuple[Recipe, DataFrame]:
    writer = writer_of(place, config, catalog)
    found = find_range(place, pipeline_name(writer), wanted, fork)
    if not found.offsets:
        raise InvalidInput(f"the range {show_offsets(wanted)} has no record: there is nothing to correct")
    # That its rows can be told is known before the log is read.
    range_files(place, pipeline_name(writer), found, fork)
    recipe = Recipe(offsets=found.offsets, pipeline=pipeline_name(writer))
    return recipe, log_rows(place, writer, found, kafka, catalog)


def _range(
    place: Place, recipe: Recipe, kafka: Mapping[str, str], brought: Iterable[str]
) -> PredicateRange | OffsetsRange:
    if recipe.offsets:
        return OffsetsRange(place, recipe, frozenset(brought))
    return PredicateRange(place, recipe, kafka)


def _made(place: Place, fork: int, recipe: Recipe, rows: DataFrame, say: Say) -> Corrected:
    """A branch with the rows, and what it changes."""
    record = Correction(id=new_id(), range=recipe.range, fork=fork)
    branch = CorrectionBranch(place.table, record)
    branch.fork()
    try:
        coming = Coming(lambda: rows, write_rows(place.table, rows, f"{branch.folder}/b-rows"))
        reach("correct.written")
        about = _range(place, recipe, {}, (file.path for file in coming.files))
        delta = replaced(place, about.select(fork), coming, f"{branch.folder}/b-gone")
        snapshot = branch.write(recipe, delta)
    except FrazilError:
        if not branch.unsettled:
            # The error that led here is the one to tell.
            with suppress(FrazilError):
                branch.drop()
                branch.sweep([])
        raise
    place.reload()
    found = chosen(listed(place.metadata, str(place)), str(place), record.id)
    say(f"{place}: comparing the branch {branch.name} with main")
    return Corrected(found, difference(place, fork, snapshot, about))


def _published(place: Place, found: CorrectionInfo, kafka: Mapping[str, str], say: Say) -> Corrected:
    if found.state is State.PUBLISHED:
        return Corrected(found, published="already")
    if found.state is not State.READY or found.recipe is None or found.snapshot is None:
        raise Conflict(
            f"correction {found.id} of {place} is {found.state} and cannot be published: drop it (frazil "
            f"correct drop {place} {found.id}), and make it again"
        )
    record, snapshot = found.record, found.snapshot
    branch = CorrectionBranch(place.table, record)
    copied = branch.brought(snapshot)
    about = _range(place, found.recipe, kafka, (str(file["file-path"]) for file in copied))
    coming = Coming(lambda: about.after(place.frame(snapshot, place=True)), copied=copied)
    replacing = Replacing(place, about, coming, record.fork, branch.folder, say)
    say(f"{place}: publishing correction {record.id}")
    try:
        landed = branch.publish(found.recipe, snapshot, replacing)
    except FrazilError:
        if not branch.unsettled:
            with suppress(FrazilError):
                branch.sweep([], replacing.names)
        raise
    place.reload()
    with suppress(FrazilError):
        branch.sweep([landed.snapshot, snapshot])
    info = replace(found, state=State.PUBLISHED, snapshot=landed.snapshot)
    made = Corrected(info, None, landed.how, replacing.recomputed)
    there = place.history.snapshot(landed.snapshot)
    if there is None or there.parent is None:
        return made
    return replace(made, difference=difference(place, there.parent, landed.snapshot, about))
