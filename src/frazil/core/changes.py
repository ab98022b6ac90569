"""Changes of rows: what a change does, and where it stands in its database's commit order."""

from __future__ import annotations

from enum import IntEnum

import pyarrow as pa


class Op(IntEnum):
    """What happened to a row."""

    #: Seen by a snapshot: the row was there.
    READ = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    #: All rows of the table went; it has no key.
    TRUNCATE = 4


#: The line of changes that a column of the row orders (`sequence_by`): only those of one key can be compared.
BY_COLUMN = "column"

#: Beside each changed row: what was done, and its place in the log and in the order of commits.
ORDER = pa.schema(
    [
        pa.field("op", pa.int8(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        # What the three numbers count (`lsn`, `gtid:0`, `binlog:7`); null: there is no order but the log's.
        pa.field("line", pa.string()),
        pa.field("at0", pa.int64(), nullable=False),
        pa.field("at1", pa.int64(), nullable=False),
        pa.field("at2", pa.int64(), nullable=False),
        # When the database made the change, milliseconds since 1970; 0: it did not say.
        pa.field("ts", pa.int64(), nullable=False),
        # Columns whose value the source left out because it did not change: one bit each, the lowest of the
        # first byte being the first column; null: none.
        pa.field("holes", pa.binary()),
    ]
)
