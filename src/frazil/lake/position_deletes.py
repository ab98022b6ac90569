"""Files of deleted positions, as tables of format 2 have them; ours are about one data file each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from frazil.core.schema import FIELD_ID, Field, Schema
from frazil.lake.data_rows import row_groups
from frazil.lake.deletion_vector import bitmap_of, positions_of
from frazil.lake.storage import FileStorage, Inputs

#: Reserved by Iceberg.
PATH_ID = 2147483546
POSITION_ID = 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {FIELD_ID: str(PATH_ID).encode()}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: str(POSITION_ID).encode()}),
    ]
)
_COLUMNS = Schema(
    (Field("file_path", "string", True, id=PATH_ID), Field("pos", "long", True, id=POSITION_ID))
)


def write_positions(storage: FileStorage, path: str, references: str, positions: BitMap64) -> int:
    """The positions of one data file, in order; the size of the file."""
    numbers = positions_of(positions)
    names = pa.DictionaryArray.from_arrays(np.zeros(len(numbers), np.int32), pa.array([references]))
    table = pa.Table.from_arrays([names.cast(pa.string()), pa.array(numbers)], schema=_SCHEMA)
    output = storage.open_output(path)
    try:
        with output.guard():
            pq.write_table(
                table,
                output.sink,
                use_dictionary=["file_path"],
                # They only grow, most by little.
                column_encoding={"pos": "DELTA_BINARY_PACKED"},
                compression="zstd",
                store_schema=False,
            )
        return output.close()
    except BaseException:
        output.discard()
        raise


def read_positions(storage: Inputs, path: str, format_: str) -> dict[str, BitMap64]:
    """By data file; written by whomever."""
    found: dict[str, BitMap64] = {}
    for _, rows in row_groups(storage, path, format_, _COLUMNS):
        names = pc.dictionary_encode(rows.column("file_path")).combine_chunks()
        numbers = rows.column("pos").to_numpy()
        codes = names.indices.to_numpy()
        for code, name in enumerate(names.dictionary.to_pylist()):
            found.setdefault(name, BitMap64()).update(bitmap_of(numbers[codes == code]))
    return found
