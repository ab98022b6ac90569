"""Dead letters of a range of the log. A correction by offsets writes no letters and marks none.

So a record must be bad now if it waits as a letter, and only then: else it would be in no table, or come a
second time when its letter is put back. Where that is not so, the correction is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from pyroaring import BitMap64
from pyspark.accumulators import AccumulatorParam

from frazil.client.naming import written
from frazil.core.errors import Conflict, NotFound
from frazil.hot.correct.place import Place
from frazil.hot.table import TIERING
from frazil.lake.deletion_vector import bitmap_of
from frazil.stream.config.model import PipelineConfig
from frazil.stream.decoding import Rows
from frazil.stream.dlq import Choice, waiting, where_letters_go
from frazil.stream.observe.texts import counted
from frazil.stream.source import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Offsets, by topic and partition.
Positions: TypeAlias = dict[tuple[str, int], BitMap64]
_SHOWN = 5


@dataclass
class Differing:
    """Records that are bad and no letters, and letters that are good. Made in tasks, and put together."""

    lost: Positions = field(default_factory=dict)
    back: Positions = field(default_factory=dict)
    #: Of some that are lost, by their positions.
    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, rows: Rows, letters: Positions) -> None:
        raw, place = rows.raw, (rows.raw.topic, rows.raw.partition)
        known = letters.get(place, BitMap64())
        offsets = raw.offsets.to_numpy()
        bad = bitmap_of(offsets[np.array([one.index for one in rows.bad], np.int64)])
        _add(self.lost, place, bad - known)
        # Only of records that are there: what a log has let go comes to no row.
        _add(self.back, place, (known & bitmap_of(offsets)) - bad if known else BitMap64())
        for one in rows.bad:
            if len(self.reasons) == _SHOWN:
                break
            if offsets[one.index] not in known:
                why = one.reason if one.field is None else f"{one.field}: {one.reason}"
                self.reasons[_position(*place, int(offsets[one.index]))] = why

    def take(self, other: Differing) -> None:
        for mine, theirs in ((self.lost, other.lost), (self.back, other.back)):
            for place, offsets in theirs.items():
                _add(mine, place, offsets)
        self.reasons |= other.reasons


class Merged(AccumulatorParam[Differing]):
    """As sets, so that a task that ran twice counts once."""

    def zero(self, value: Differing) -> Differing:
        return Differing()

    def addInPlace(self, value1: Differing, value2: Differing) -> Differing:  # noqa: N802 - Spark's name
        value1.take(value2)
        return value1


def letters_of(
    spark: SparkSession, place: Place, config: PipelineConfig, slices: Sequence[Slice]
) -> Positions:
    """Where the letters of the pipeline that wait are, in these slices."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    if config.dead_letters is None:
        return {}
    try:
        frame = waiting(spark, place.table.lake, config, Choice())
    except NotFound:
        # There was no bad record yet.
        return {}
    inside = " OR ".join(
        f"(topic = '{one.topic}' AND `partition` = {one.partition} AND `offset` >= {one.start} AND "
        f"`offset` < {one.end})"
        for one in slices
    )
    parts = frame.where(inside).groupBy("topic", "partition").agg(F.collect_set("offset").alias("offsets"))
    return {(row["topic"], row["partition"]): BitMap64(row["offsets"]) for row in parts.collect()}


def require_none(place: Place, config: PipelineConfig, found: Differing) -> None:
    """Conflict: the correction would lose records, or bring some that wait as letters."""
    said = [_lost(place, config, found)] if found.lost else []
    if found.back:
        said.append(_back(config, found))
    if said:
        raise Conflict(f"the range is not corrected, and {place} is as it was: {'. '.join(said)}")


def _lost(place: Place, config: PipelineConfig, found: Differing) -> str:
    count = _count(found.lost)
    shown = [f"{at} ({reason})" for at, reason in found.reasons.items()]
    # Nobody rebuilds hot tables or puts back their letters.
    instead = "" if config.name == TIERING else "use `frazil rebuild`, which makes letters of them; "
    return (
        f"{counted(count, 'record')} would be in no table, bad now and no dead letter that waits: "
        f"{_some(shown, count)}. Change columns, format or contract so that they are rows; {instead}or "
        f"correct {place} by a predicate (--where)"
    )


def _back(config: PipelineConfig, found: Differing) -> str:
    count, letters = _count(found.back), where_letters_go(config)
    shown = [_position(*at, offset) for at, mine in found.back.items() for offset in mine[:_SHOWN]]
    instead = (
        "Put them back by `frazil dlq replay`, and correct other rows by a predicate (--where); use `frazil "
        "rebuild`, which marks them as put back; or delete"
    )
    return (
        f"{counted(count, 'dead letter')} would be rows as well, good now: {_some(shown, count)}. "
        f"{'Delete' if config.name == TIERING else instead} them from "
        f"{written(*letters.namespace, letters.name)}, and they come with the correction"
    )


def _add(to: Positions, place: tuple[str, int], offsets: BitMap64) -> None:
    if offsets:
        to[place] = to.get(place, BitMap64()) | offsets


def _count(offsets: Positions) -> int:
    return sum(map(len, offsets.values()))


def _position(topic: str, partition: int, offset: int) -> str:
    """As `frazil dlq show` takes it."""
    return f"{topic}/{partition}:{offset}"


def _some(shown: Sequence[str], count: int) -> str:
    more = [f"and {count - _SHOWN:,} more"] if count > _SHOWN else []
    return ", ".join([*shown[:_SHOWN], *more])
