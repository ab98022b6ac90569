"""Where what a row lacks is looked up."""

from __future__ import annotations

import pyarrow as pa

from frazil.lake.patches import Patches


def test_rows_that_are_not_where_they_were_are_looked_up_where_they_are() -> None:
    """But not where another row was: its values are no others'."""
    rows = pa.table({"id": [10, 2, 3, 4], "word": [None] * 4})
    origins = pa.table({"id": [1, 10, 3, 5]})
    patches = Patches(rows, pa.array([b"\x02"] * 4, pa.binary()), origins)
    found = patches.at_home((0, 1, 2))
    assert found is not None
    assert found.keys.column("id").to_pylist() == [1, 2, 3, 5]
    assert patches.at_home((0, 2)) is None
    assert patches.at_home(()) is None
    assert Patches(rows, patches.holes).at_home((0,)) is None
