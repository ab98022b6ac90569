"""The soak: what it takes for flat, for wrong, and a short one with everything in it."""

from __future__ import annotations

import pytest
from bench.soak.__main__ import run
from bench.soak.copies import FORMATS
from bench.soak.measure import Settings, growth
from bench.soak.place import Place
from bench.tables import differing

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param([9.0] * 5 + [10.0] * 25, 1.0, id="a warm-up does not count"),
        pytest.param([float(number) for number in range(1, 31)], 25.5 / 8, id="a leak"),
        pytest.param([10.0, 14.0, 18.0] * 10, 1.0, id="a cycle"),
        pytest.param([5.0, 10.0, 10.0, 10.0, 20.0, 20.0], 2.0, id="few samples"),
        pytest.param([5.0], 1.0, id="one sample"),
    ],
)
def test_growth(values: list[float], wanted: float) -> None:
    assert growth(values) == pytest.approx(wanted)


def test_rows_that_differ() -> None:
    wanted = [(1, "a"), (2, "b"), (3, "c")]
    assert differing(wanted, wanted[::-1]) == 0
    assert differing(wanted, [(1, "a"), (2, "x"), (3, "c"), (3, "c"), (4, "d")]) == 3
    assert differing(wanted, []) == 3


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_short_soak(
    postgres_source: Postgres,
    kafka: Kafka,
    connect: KafkaConnect,
    frazil_sqlite: FrazilServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = Place(postgres_source, kafka, connect, frazil_sqlite)
    report = run(place, Settings(minutes=1, every=10, rate=50, scale=1, freshness="2s"))
    lines = [result.line() for result in report.results()]
    assert lines[:2] == ["RESULT soak.rows_wrong 0.00 <=0 ok", "RESULT soak.sums_wrong 0.00 <=0 ok"]
    names = [f"soak.{name}_growth.v{version}" for name in ("memory", "read") for version in FORMATS]
    assert [line.split()[1] for line in lines[2:]] == names
    samples = report.soak.samples
    assert len(samples) >= 5
    assert all(end.rows > 100_000 for end in report.soak.ends.values())
    for version in FORMATS:
        assert all(sample.copies[version].read_cpu > 0 for sample in samples)
        assert all(
            {"driver", "jvm", "workers"} <= set(sample.copies[version].mb_by_kind) for sample in samples
        )
        contents = [sample.copies[version].accounts.contents for sample in samples]
        assert any(found.delete_files for found in contents)
        assert contents[-1].data_files < contents[-1].commits - 2, "files were merged"
    assert capsys.readouterr().err.count(" behind, ") == 2 * len(samples)
    assert "| 3 | " in report.markdown()
    assert report.as_json()["results"]
