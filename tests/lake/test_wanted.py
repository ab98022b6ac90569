"""Rows of a condition: no file or group is left out that has one, whatever its values are."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.data_rows import open_rows
from frazil.lake.files import FileOptions, WriteTarget
from frazil.lake.manifests import DATA, ContentFile
from frazil.lake.storage import FileStorage
from frazil.lake.wanted import Between
from frazil.lake.writer import TableWriter

_TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "string": pa.string(),
}


def _value(draw: random.Random, kind: str) -> Any:
    if draw.randrange(6) == 0:
        return None
    match kind:
        case "int":
            return draw.choice([draw.randint(-9, 9), -(1 << 31), (1 << 31) - 1])
        case "long":
            return draw.choice([draw.randint(-9, 9), -(1 << 63), (1 << 63) - 1, 1 << 40])
        case "date":
            return draw.choice([date(1970, 1, 1) + timedelta(draw.randint(-9, 9)), date.min, date.max])
    return draw.choice(["", "a", "b", "z" * 40, "z" * 40 + "a", "ä", "\uffff", "🧊", "\x00"])


@pytest.mark.parametrize("kind", _TYPES)
def test_between(kind: str, tmp_path: Path) -> None:
    """As a filter that looks at every row has it, by what files and their groups say of themselves."""
    draw, field = random.Random(kind), Field("v", kind, id=1)
    storage = FileStorage.of(str(tmp_path), None)
    left_out = 0
    for number in range(60):
        rows = [_value(draw, kind) for _ in range(draw.randint(1, 4))]
        path = f"{tmp_path}/{number}.parquet"
        schema = pa.schema([pa.field("v", _TYPES[kind], metadata={"PARQUET:field_id": "1"})])
        pq.write_table(pa.table({"v": pa.array(rows, _TYPES[kind])}, schema), path, row_group_size=2)
        target = WriteTarget(str(tmp_path), Schema((field,)), PartitionSpec(), FileOptions())
        writer = TableWriter(target, storage, f"{tmp_path}/w{number}")
        writer.write(pa.record_batch({"v": pa.array(rows, _TYPES[kind])}))
        (made,) = writer.close()
        file = ContentFile(
            made.path,
            "parquet",
            DATA,
            made.records,
            made.size,
            0,
            {},
            1,
            lower=made.metrics.lower_bounds,
            upper=made.metrics.upper_bounds,
            nulls=made.metrics.null_value_counts,
        )
        for _ in range(10):
            low, high = _value(draw, kind), _value(draw, kind)
            sieve = Between(field, pa.array([low, high], _TYPES[kind])).sieve({})
            expected = [
                one is not None and (low is None or one >= low) and (high is None or one <= high)
                for one in rows
            ]
            assert sieve.mask([pa.array(rows, _TYPES[kind])]).tolist() == expected
            assert sieve.meets_file(file) or not any(expected)
            left_out += not sieve.meets_file(file)
            with open_rows(storage, path, "parquet") as parts:
                for group in parts.groups():
                    mine = np.array(expected)[group.first : group.first + group.count]
                    assert sieve.meets_group(group) or not mine.any()
                    left_out += not sieve.meets_group(group)
    assert left_out > 100
