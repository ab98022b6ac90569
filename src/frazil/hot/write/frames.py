"""A DataFrame of Spark into a hot table: tasks send their own rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.hot.table import HotTable
from frazil.hot.write.put import Encoding
from frazil.hot.write.sending import Sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULT = pa.schema([("sent", pa.int64()), ("problem", pa.string())])


@dataclass(frozen=True)
class _Task:
    table: HotTable
    #: May hold secrets: it is sent with the task, and in no plan.
    settings: Mapping[str, str] = field(repr=False)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent, problem = 0, None
        with Sender(self.table.topic, self.settings) as sender:
            encoding = Encoding(self.table, sender.largest)
            try:
                for batch in batches:
                    ready = [encoding.upserts(rows) for rows in encoding.rows.arrow(batch)]
                    sent += sum(sender.send(one.keys.to_pylist(), one.values.to_pylist()) for one in ready)
            except InvalidInput as error:
                # Spark would try again, to the same end, and hide the words in a trace.
                problem = error.message
        yield pa.RecordBatch.from_arrays([pa.array([sent]), pa.array([problem], pa.string())], schema=_RESULT)


def put_frame(frame: DataFrame, table: HotTable, settings: Mapping[str, str]) -> int:
    """Send all rows; InvalidInput if some do not fit, those of other batches are sent then."""
    task = _Task(table, dict(settings))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task.run(batches)

    found = frame.mapInArrow(run, "sent long, problem string").collect()
    sent = sum(int(row.sent) for row in found)
    problems = [row.problem for row in found if row.problem is not None]
    if problems:
        raise InvalidInput(f"{problems[0]} (counted in its batch). {sent} rows of other batches were sent")
    return sent
