"""The benchmark of change data: its changes are what its tables are compared with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench.cdc.__main__ import run
from bench.cdc.changes import ABSENT, PARTITIONS, Kind, Workload, envelopes
from bench.cdc.measure import Scenario
from bench.cdc.place import Place
from bench.cdc.rows import differs, table_of
from bench.numbers import Ids

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka


@pytest.mark.parametrize("kind", ["random", "append"])
def test_changes_and_rows(kind: Kind) -> None:
    workload = Workload(5000, 400, kind)
    rows = {row["id"]: row for row in _as_json(np.arange(5000), np.zeros(5000, np.int64))}
    positions = set[int]()
    ops = set[str]()
    for _ in range(5):
        for part in workload.batch():
            assert len(part.ids) == 400 // PARTITIONS
            assert part.after[-1] != ABSENT
            assert set(part.ids % PARTITIONS) == {part.partition}
            for key, value in envelopes(part):
                change = json.loads(value)
                i = json.loads(key)["id"]
                ops.add(change["op"])
                positions.add(change["source"]["lsn"])
                assert change["before"] == rows.pop(i, None)
                if change["op"] != "d":
                    rows[i] = change["after"]
    assert ops == ({"c", "u", "d"} if kind == "random" else {"c", "u"})
    assert len(positions) == 5 * 400
    alive = workload.alive
    assert [rows[i] for i in alive] == _as_json(alive, workload.versions[alive])
    assert len(rows) == len(alive)


def test_a_row_that_differs() -> None:
    ids, versions = np.arange(10), np.full(10, 3)
    (batch,) = table_of(ids, versions).combine_chunks().to_batches()
    assert not differs(batch).any()
    (other,) = table_of(ids, versions + 1).combine_chunks().to_batches()
    mixed = batch.set_column(8, "note", other["note"])
    assert differs(mixed).all()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_tiny_run(kafka: Kafka, frazil_sqlite: FrazilServer, tmp_path: Path) -> None:
    place = Place(kafka, frazil_sqlite, tmp_path)
    try:
        report = run(place, [Scenario(5000, 2, 1, 500, "random", ("frazil3",), reads=True)])
    finally:
        place.close()
    (found,) = report.measurements
    assert found.contents.commits == 1 + 1 + 3, "the first rows, the claim, and one for each batch"
    assert found.read_cpu
    assert found.compacted_cpu
    assert [(result.name, result.value) for result in report.results()][-1] == ("cdc.rows_wrong", 0)
    assert report.markdown().count("| 5k |") == 1


def _as_json(ids: Ids, versions: Ids) -> list[dict[str, object]]:
    """As Debezium shows the rows of a table."""
    rows = table_of(ids, versions).to_pylist()
    return [
        row | {"ts": f"{row['ts']:%Y-%m-%dT%H:%M:%S}.{row['ts'].microsecond // 1000:03d}Z"} for row in rows
    ]
