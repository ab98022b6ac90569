"""The rows of a range, computed again: by a query of Spark's SQL, checked before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.core.correction import Recipe
from frazil.core.errors import Conflict, FrazilError, InvalidInput
from frazil.core.schema import spark_type
from frazil.hot.correct.place import Place
from frazil.hot.read.sql import Tables, query_frame
from frazil.lake.files import DataFile
from frazil.lake.schemas import schema_of
from frazil.lake.table import LakeTable
from frazil.stream.fit import problems
from frazil.stream.frames import written
from frazil.stream.jobs import translated
from frazil.stream.needs import Lacking
from frazil.stream.outlets import Destination, TableWriting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.stream.outlets import Keys

_KEY_SECONDS = 1800.0
#: Expressions whose value is another one tomorrow, although Spark takes them for constant.
_MOVING = ("Current", "Now", "LocalTimestamp", "InputFile")


def inside(where: str) -> Column:
    """Whether a row is of the range; where the predicate is null, it is not."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    return F.coalesce(F.expr(where), F.lit(False))


def require_range(place: Place, where: str, snapshot: int) -> None:
    """InvalidInput: it is no predicate over the table's columns that is the same tomorrow."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        plan = place.frame(snapshot).where(inside(where))._jdf.queryExecution().analyzed()  # noqa: SLF001
    except (AnalysisException, ParseException) as error:
        said = str(error).strip().splitlines()[0]
        raise InvalidInput(
            f"'{where}' is no range of {place}: {said}. Write a predicate over its columns "
            f"({', '.join(field.name for field in place.schema)}), such as day = DATE '2026-01-01'"
        ) from None
    waiting = [plan.expressions().apply(number) for number in range(plan.expressions().size())]
    while waiting:
        one = waiting.pop()
        kind = str(one.getClass().getSimpleName())
        if not one.deterministic() or kind.startswith(_MOVING) or "Subquery" in kind or kind == "InSubquery":
            raise InvalidInput(
                f"'{where}' is no range: {one.toString()} may be another one when the correction is "
                "published. Write constants"
            )
        below = one.children()
        waiting += [below.apply(number) for number in range(below.size())]


def computed(place: Place, snapshot: int, recipe: Recipe, kafka: Mapping[str, str]) -> DataFrame:
    """The rows that the range should have, if the table is as it was at the snapshot; they are computed once.

    InvalidInput: they do not fit the table, or the range. Conflict: their keys are taken.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tables = Tables(place.client, kafka=kafka, fresh=recipe.fresh)
    # Whatever the query asks for: rows of the tail land by themselves, and would be there twice.
    tables.found[place.query_name] = place.pinned(snapshot)
    found = query_frame(recipe.sql, tables, place.spark)
    for name, one in tables.named().items():
        if one.pins.uuid == place.table.uuid and name != place.query_name.lower():
            raise InvalidInput(
                f"the query calls the table that is corrected {name}: write {place.query_name}"
            )
    frame = fitted(place, found, "the query gives")
    try:
        rows = frame.localCheckpoint(eager=True)
        _require_inside(place, rows, recipe.where)
        if place.key:
            _require_unique(place, rows)
            others = place.frame(snapshot, spark=rows.sparkSession).where(~inside(recipe.where))
            require_free(place, rows, others, "outside of the range")
    except (Py4JError, PySparkException) as error:
        raise as_error(error) from None
    return rows


def fitted(place: Place, frame: DataFrame, what: str, *, partial: bool = False) -> DataFrame:
    """In the columns and types of the table; `partial`: optional ones may be missing, and are null.

    InvalidInput: it has others.
    """
    from pyspark.sql import functions as F  # noqa: N812

    given = schema_of(frame)
    wrong = problems(given, place.schema)
    there = {field.name for field in given}
    wrong += [
        f"the table has '{field.name}', which the rows do not have (select NULL AS {field.name} for none)"
        for field in place.schema
        if not (partial or field.required or field.name in there)
    ]
    if wrong:
        raise InvalidInput(
            f"what {what} does not fit the table {place}: {'; '.join(wrong)}. Give all of its columns by "
            "their names, and CAST them to its types"
        )
    columns = []
    for field in place.schema:
        column = F.col(quoted(field.name)) if field.name in there else F.lit(None)
        if isinstance(field.type, str) or field.name not in there:
            column = column.cast(spark_type(field.type)).alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def require_free(place: Place, rows: DataFrame, others: DataFrame, where: str) -> None:
    """Conflict: other rows of the table have the keys of these."""
    mine, theirs = _keyed(rows, place.key), _keyed(others, place.key)
    taken = _first(theirs.join(mine.distinct(), mine.columns, "left_semi"), place.key)
    if taken is not None:
        raise Conflict(
            f"a row of the correction has the key {taken}, which a row of {place} {where} has already, and "
            "keys tell rows apart: let the range take in both, or leave the row out of the query"
        )


def write_rows(table: LakeTable, rows: DataFrame, prefix: str) -> list[DataFile]:
    """As data files, by the tasks that have them. They are no part of the table yet."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    name = str(table)
    renewing = table.renewing_keys(_KEY_SECONDS)
    vended: Keys = {} if renewing is None else {name: renewing.current()}
    keys = rows.sparkSession.sparkContext.broadcast(vended)
    writing = TableWriting("", {name: Destination(table.write_target(), prefix)}, name)
    try:
        reports = written(rows, keys, writing)
    except (Py4JError, PySparkException) as error:
        raise as_error(error) from None
    finally:
        keys.destroy()
    return [file for report in reports for files in report.files.values() for file in files]


def as_error(error: Exception) -> FrazilError:
    """What a job failed with."""
    found = translated(error)
    return InvalidInput("the rows do not fit the table") if isinstance(found, Lacking) else found


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _require_inside(place: Place, rows: DataFrame, where: str) -> None:
    stray = _first(rows.where(~inside(where)))
    if stray is not None:
        raise InvalidInput(
            f"the query gives rows outside of the range ({where}), such as {stray}: they would be added and "
            f"replace nothing. Put the range into the query's WHERE, or widen it; {place} is as it was"
        )


def _require_unique(place: Place, rows: DataFrame) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    keys = _keyed(rows, place.key)
    several = keys.groupBy(*keys.columns).agg(F.count("*").alias("count")).where("count > 1")
    twice = _first(several.select(*keys.columns), place.key)
    if twice is not None:
        raise InvalidInput(
            f"the query gives several rows of one key, {twice}; {place} has one row for each "
            f"({', '.join(place.key)}). Group by the key, or take one row of each"
        )


def _keyed(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The key columns, under names that need no quotes."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(*(F.col(quoted(name)).alias(f"key{number}") for number, name in enumerate(key)))


def _first(frame: DataFrame, names: Sequence[str] | None = None) -> str | None:
    """A row, to be shown."""
    for row in frame.limit(1).collect():
        values: dict[str, Any] = dict(zip(names or frame.columns, row, strict=True))
        return json.dumps(values, default=str, ensure_ascii=False)
    return None
