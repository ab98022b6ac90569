"""A DataFrame of Spark into a hot table: tasks send their own rows, or the keys of rows that go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.hot.table import HotTable
from frazil.hot.write.put import Encoding, key_columns
from frazil.hot.write.sending import Sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULT = pa.schema([("sent", pa.int64()), ("problem", pa.string())])


@dataclass(frozen=True)
class _Task:
    table: HotTable
    #: May hold secrets: it is sent with the task, and in no plan.
    settings: Mapping[str, str] = field(repr=False)
    #: Whether the rows are keys of rows that go.
    deletes: bool = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent, problem = 0, None
        with Sender(self.table.topic, self.settings) as sender:
            encoding = Encoding(self.table, sender.largest)
            fit = encoding.key_fit() if self.deletes else encoding.rows
            make = encoding.deletes if self.deletes else encoding.upserts
            try:
                for batch in batches:
                    ready = [make(rows) for rows in fit.arrow(batch)]
                    sent += sum(sender.send(one.keys.to_pylist(), one.values.to_pylist()) for one in ready)
            except InvalidInput as error:
                # Spark would try again, to the same end, and hide the words in a trace.
                problem = error.message
        yield pa.RecordBatch.from_arrays([pa.array([sent]), pa.array([problem], pa.string())], schema=_RESULT)


def put_frame(frame: DataFrame, table: HotTable, settings: Mapping[str, str]) -> int:
    """Send all rows; InvalidInput if some do not fit, those of other batches are sent then."""
    return _sent(frame, _Task(table, dict(settings)))


def delete_frame(frame: DataFrame, table: HotTable, settings: Mapping[str, str]) -> int:
    """Delete by the key columns of all rows; InvalidInput as of `put_frame`."""
    keys = frame.select([f"`{name.replace('`', '``')}`" for name in key_columns(table, frame.columns)])
    return _sent(keys, _Task(table, dict(settings), deletes=True))


def _sent(frame: DataFrame, task: _Task) -> int:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task.run(batches)

    found = frame.mapInArrow(run, "sent long, problem string").collect()
    sent = sum(int(row.sent) for row in found)
    problems = [row.problem for row in found if row.problem is not None]
    if problems:
        raise InvalidInput(f"{problems[0]} (counted in its batch). {sent} rows of other batches were sent")
    return sent
