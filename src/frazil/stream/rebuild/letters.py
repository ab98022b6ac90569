"""Dead letters of a rebuild: a record is a letter once, or a row of the table, and never both.

What is bad and waits as a letter already is not written again. What waits and is good now is in the rebuilt
table, so it is marked as put back: `frazil dlq replay` would bring it a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import Schema
from frazil.lake.arrow_scan import ArrowScan
from frazil.lake.data_rows import Columns, open_rows
from frazil.lake.files import DataFile
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.lake.table import LakeTable
from frazil.stream.dead_letters import DEAD_LETTERS, REPLAYED
from frazil.stream.dlq_batches import POSITION, identities, marks_of
from frazil.stream.rebuild.past import Mask

if TYPE_CHECKING:
    from frazil.client import Client

#: What letters are known by, and what their marks say.
_HEAVY = ("key", "headers", "value")


def settled(
    pipeline: str,
    table: LakeTable,
    client: Client,
    bad: Sequence[DataFile],
    covers: Callable[[pa.Table], Mask],
) -> tuple[pa.Table, pa.Table]:
    """New letters, and marks of those that are good now. `bad`: files of letters that the rebuild wrote."""
    now, waiting = _written(table, bad), _waiting(pipeline, table, client)
    mine = pa.repeat(pipeline, len(now))
    now = now.set_column(now.schema.get_field_index("pipeline"), now.schema.field("pipeline"), mine)
    fresh = now.filter(pc.invert(pc.is_in(_places(now), value_set=_places(waiting))))
    good = waiting.filter(pa.array(covers(waiting)))
    good = good.filter(pc.invert(pc.is_in(_places(good), value_set=_places(now))))
    return fresh, marks_of(good)


def _written(table: LakeTable, files: Sequence[DataFile]) -> pa.Table:
    schema = DEAD_LETTERS.to_arrow()
    found, storage, columns = [], table.storage(), Columns(_columns(table.schema, schema.names))
    for file in files:
        with open_rows(storage, file.path, file.format) as rows:
            found += [group.read(columns).select(schema.names).cast(schema) for group in rows.groups()]
    return pa.concat_tables(found) if found else schema.empty_table()


def _waiting(pipeline: str, table: LakeTable, client: Client) -> pa.Table:
    """Letters of the pipeline that were not put back."""
    schema = pa.schema([field for field in DEAD_LETTERS.to_arrow() if field.name not in _HEAVY])
    where = (table.namespace, table.name)
    metadata = client.tables.load(*where).metadata
    head = metadata.get("current-snapshot-id")
    if head in (None, -1):
        return schema.empty_table()
    storage = PlacedFiles(ReadKeys(client, *where).places(metadata))
    scan = ArrowScan(metadata, int(head), _columns(table.schema, schema.names), storage)
    found = pa.concat_tables([schema.empty_table(), *_of(pipeline, scan, schema)])
    marks = pc.equal(found["stage"], REPLAYED)
    put_back = identities(found.filter(marks))
    letters = found.filter(pc.invert(marks))
    return letters.filter(pc.invert(pc.is_in(identities(letters), value_set=put_back)))


def _of(pipeline: str, scan: ArrowScan, schema: pa.Schema) -> Iterator[pa.Table]:
    for batch in scan.batches():
        rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        yield rows.filter(pc.equal(rows["pipeline"], pipeline))


def _columns(schema: Schema, names: Sequence[str]) -> Schema:
    return Schema(tuple(schema.field(name) for name in names))


def _places(letters: pa.Table) -> pa.Array:
    parts = [letters[name].cast(pa.string()) for name in POSITION]
    joined = pc.binary_join_element_wise(*parts, "\n")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
