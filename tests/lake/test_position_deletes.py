"""Files of deleted positions; that Spark, PyIceberg and DuckDB read them is in the tests of upserts."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
from pyroaring import BitMap64

from frazil.lake.position_deletes import read_positions, write_positions
from frazil.lake.storage import FileStorage


def test_what_was_written_is_read_and_takes_little_room(tmp_path: Path) -> None:
    storage, path = FileStorage.of(str(tmp_path), None), f"{tmp_path}/deletes.parquet"
    gone = BitMap64(random.Random(1).sample(range(20_000), 10_000))
    size = write_positions(storage, path, "file:/data/1.parquet", gone)
    assert size == Path(path).stat().st_size
    assert read_positions(storage, path, "parquet") == {"file:/data/1.parquet": gone}
    # No two are the same: a dictionary would hold them all, and their numbers come on top.
    names, positions = (pq.read_metadata(path).row_group(0).column(number) for number in range(2))
    assert names.has_dictionary_page
    assert not positions.has_dictionary_page
    assert size < len(gone)
