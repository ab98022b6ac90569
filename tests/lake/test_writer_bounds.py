"""Bounds hold every value, whatever it is."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import BinaryType, DecimalType, DoubleType, FixedType, FloatType, LongType, StringType

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema, arrow_type
from frazil.lake.files import DataFile, FileOptions, WriteTarget
from frazil.lake.metrics import lower_bound, upper_bound
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter

#: Near the ends, where an increment carries.
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud7ff\ue000\U0010ffff\x00a"), max_size=24)
BYTES = st.binary(max_size=24) | st.lists(st.sampled_from([0, 254, 255]), max_size=24).map(bytes)
FLOATS = st.floats(width=32)
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "string": (StringType(), TEXTS),
    "binary": (BinaryType(), BYTES),
    "fixed[3]": (FixedType(3), st.binary(min_size=3, max_size=3)),
    "long": (LongType(), st.integers(-(2**63), 2**63 - 1)),
    "float": (FloatType(), FLOATS),
    "double": (DoubleType(), st.floats()),
    "decimal(9, 2)": (DecimalType(9, 2), st.decimals("-9999999.99", "9999999.99", places=2)),
    "decimal(38, 0)": (DecimalType(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
}


@settings(deadline=None)
@given(TEXTS)
def test_texts(text: str) -> None:
    low, high = lower_bound("string", text.encode()), upper_bound("string", text.encode())
    assert low.decode() <= text
    assert len(low.decode()) <= 16
    assert high is None or (text <= high.decode() and len(high.decode()) <= 16)
    assert high is not None or text[:16] == "\U0010ffff" * 16


@settings(deadline=None)
@given(BYTES)
def test_bytes(data: bytes) -> None:
    low, high = lower_bound("binary", data), upper_bound("binary", data)
    assert low <= data
    assert high is None or (data <= high and len(high) <= 16)
    assert high is not None or data[:16] == b"\xff" * 16


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_files(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """Read back by PyIceberg's rules; a small size makes several row groups."""
    decoder, values = KINDS[kind]
    rows = data.draw(st.lists(st.lists(st.none() | values, min_size=1, max_size=5), min_size=1, max_size=4))
    (file,) = written(tmp_path, kind, rows)
    flat = [value for group in rows for value in group if value is not None]
    known = [value for value in flat if not (isinstance(value, float) and math.isnan(value))]
    assert file.metrics.value_counts == {1: sum(map(len, rows))}
    assert file.metrics.null_value_counts == {1: sum(map(len, rows)) - len(flat)}
    if kind in ("float", "double"):
        assert file.metrics.nan_value_counts == {1: len(flat) - len(known)}
    if not known:
        assert file.metrics.lower_bounds == file.metrics.upper_bounds == {}
        return
    assert _key(from_bytes(decoder, file.metrics.lower_bounds[1])) <= min(map(_key, known))
    if 1 in file.metrics.upper_bounds:
        assert max(map(_key, known)) <= _key(from_bytes(decoder, file.metrics.upper_bounds[1]))
    else:
        assert kind in ("string", "binary")


def _key(value: Any) -> Any:
    """Java orders -0.0 below 0.0."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def written(folder: Path, kind: str, groups: list[list[Any]], size: int = 10**6) -> list[DataFile]:
    location = f"file://{folder}"
    schema = Schema((Field("c", kind, id=1),))
    target = WriteTarget(location, schema, PartitionSpec(), FileOptions(size=size))
    writer = TableWriter(target, FileStorage.of(location, None), f"{location}/t")
    for group in groups:
        writer.write(pa.record_batch([pa.array(group, arrow_type(kind))], names=["c"]))
        (file,) = writer._files.values()
        file.flush()
    return writer.close()


def test_a_value_too_long_for_the_footer_takes_the_bounds_away(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "string", [["a"], ["b" * 10_000], ["c"]])
    assert (file.metrics.lower_bounds, file.metrics.upper_bounds) == ({}, {})
    assert file.metrics.null_value_counts == {1: 0}


def test_nan_alone_in_a_row_group(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "double", [[math.nan], [1.0, math.nan], [None]])
    assert file.metrics.lower_bounds == file.metrics.upper_bounds == {1: bytes.fromhex("000000000000f03f")}
    assert (file.metrics.nan_value_counts, file.metrics.null_value_counts) == ({1: 2}, {1: 1})
