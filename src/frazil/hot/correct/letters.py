"""Dead letters of a range of the log. A correction by offsets writes no letters and marks none.

So a record must be bad now if it waits as a letter, and only then: else it would be in no table, or come a
second time when its letter is put back. Where that is not so, the correction is refused.

A letter is known by the time and value of its record, too: a topic that was deleted and made again has
another record at its offset.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from frazil.stream.source import RawBatch, Slice

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

#: Offsets, by topic and partition.
Positions: TypeAlias = dict[tuple[str, int], BitMap64]
#: By topic and partition.
Letters: TypeAlias = Mapping[tuple[str, int], "Waiting"]
_SHOWN = 5
#: In place of a checksum and a time.
_NONE = -1


@dataclass(frozen=True, eq=False)
class Waiting:
    """Letters of one partition that wait, in the order of their offsets."""

    offsets: NDArray[np.int64]
    #: Of the records: milliseconds since 1970, and checksums of their values.
    times: NDArray[np.int64]
    sums: NDArray[np.int64]

    def among(self, raw: RawBatch) -> BitMap64:
        """Offsets of the records that they are of."""
        if not len(raw):
            return BitMap64()
        offsets = raw.offsets.to_numpy()
        first = np.searchsorted(self.offsets, offsets[0])
        end = np.searchsorted(self.offsets, offsets[-1], side="right")
        mine = self.offsets[first:end]
        at = np.searchsorted(offsets, mine)
        same = (offsets[at] == mine) & (raw.timestamps.to_numpy()[at] == self.times[first:end])
        found = zip(at[same].tolist(), self.sums[first:end][same].tolist(), strict=True)
        return BitMap64(int(offsets[index]) for index, known in found if _sum(raw, index) == known)


@dataclass
class Differing:
    """Records that are bad and no letters, and letters that are good. Made in tasks, and put together."""

    lost: Positions = field(default_factory=dict)
    back: Positions = field(default_factory=dict)
    #: Of some that are lost, by their positions.
    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, rows: Rows, letters: Letters) -> None:
        raw, place = rows.raw, (rows.raw.topic, rows.raw.partition)
        known = letters[place].among(raw) if place in letters else BitMap64()
        offsets = raw.offsets.to_numpy()
        bad = bitmap_of(offsets[np.array([one.index for one in rows.bad], np.int64)])
        _add(self.lost, place, bad - known)
        _add(self.back, place, known - bad)
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


def letters_of(spark: SparkSession, place: Place, config: PipelineConfig, slices: Sequence[Slice]) -> Letters:
    """Those of the pipeline that wait, in these slices."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    if config.dead_letters is None:
        return {}
    try:
        # A session keeps a catalog as it was first used, and the caller's token with it.
        frame = waiting(spark.newSession(), place.table.lake, config, Choice())
    except NotFound:
        # There was no bad record yet.
        return {}
    inside = " OR ".join(
        f"(topic = '{one.topic}' AND `partition` = {one.partition} AND `offset` >= {one.start} AND "
        f"`offset` < {one.end})"
        for one in slices
    )
    found = frame.where(inside).select(
        "topic",
        "partition",
        "offset",
        F.coalesce(F.unix_millis("timestamp"), F.lit(_NONE)).alias("time"),
        F.coalesce(F.crc32("value"), F.lit(_NONE)).alias("sum"),
    )
    return _by_partition(found.toArrow().sort_by("offset"), {(one.topic, one.partition) for one in slices})


def _by_partition(letters: pa.Table, places: Iterable[tuple[str, int]]) -> Letters:
    found = {}
    for topic, partition in places:
        mine = letters.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
        if len(mine):
            found[topic, partition] = Waiting(*(mine[name].to_numpy() for name in ("offset", "time", "sum")))
    return found


def _sum(raw: RawBatch, index: int) -> int:
    value = raw.values[index].as_buffer()
    return _NONE if value is None else zlib.crc32(value)


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
