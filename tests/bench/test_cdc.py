"""The benchmark of change data: its changes are what its tables are compared with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench.cdc.__main__ import run
from bench.cdc.changes import ABSENT, PARTITIONS, Kind, Workload, envelopes
from bench.cdc.measure import Measurement, Scenario
from bench.cdc.place import Place
from bench.cdc.report import Report
from bench.cdc.rows import differs, table_of
from bench.meter import Usage
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


def test_figures_of_the_format_that_costs_less_have_the_goals_names() -> None:
    scenario = Scenario(2_000_000, 1, 0, 10, "random", ())
    of = {"frazil2": (4.0, 3.0), "frazil3": (1.0, 2.0), "merge2": (8.0, 1.0), "merge3": (9.0, 1.0)}
    of |= {"flink": (6.0, 9.0)}
    report = Report(2_000_000)
    for side, (write, read) in of.items():
        steps = [Usage(1.0, {"jvm": write})]
        report.measurements.append(Measurement(scenario, side, side, steps, read_cpu=read, compacted_cpu=1.0))
    assert {result.name: result.value for result in report.results()} == {
        "cdc.merge_ratio.2m": 8.0,
        "cdc.flink_ratio": 5.0,
        "cdc.read_ratio": 2.0,
        "cdc.merge_ratio.2m.v2": 2.0,
        "cdc.flink_ratio.v2": pytest.approx(15 / 7),
        "cdc.read_ratio.v2": 3.0,
        "cdc.rows_wrong": 0,
    }
    alone = "`cdc.flink_ratio` is of all batches and one read. A batch alone, in CPU-s: "
    assert f"{alone}frazil2 4.00; frazil3 1.00; flink 6.00" in report.notes()


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
