"""What a job's name tells of its sinks, and when it is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.lineage.flink.resolve.jobnames import named_sinks
from frazil.lineage.model import Direction, Endpoint, Job, TracedJob


def _sink(operator: str, *path: str) -> Endpoint:
    name = path[-1] if path else operator.partition("[")[0]
    return Endpoint(operator, Direction.WRITE, name, "v", operator, path)


PRINTED, FILES = _sink("out[7]: Writer"), _sink("StreamingFileWriter")
ICE = _sink("IcebergSink ice.db.t: Writer", "ice", "db", "t")


def _told(name: str, *sinks: Endpoint) -> dict[str, str]:
    source = Endpoint("source", Direction.READ, "out", "v", "out", ())
    found = named_sinks(TracedJob(Job("1", name), (source, *sinks)))
    return {id_: ".".join(path) for id_, path in found.items()}


def test_a_short_name_is_completed_and_what_is_left_is_the_sink_without_one() -> None:
    assert _told("insert-into_c.d.out", PRINTED) == {PRINTED.id: "c.d.out"}
    assert _told("insert-into_c.d.files,c.d.out,ice.db.t", PRINTED, FILES, ICE) == {
        PRINTED.id: "c.d.out",
        FILES.id: "c.d.files",
    }


def test_a_sink_of_iceberg_tells_its_table_better() -> None:
    nested = Endpoint("n", Direction.WRITE, "ice.a.db.t", "v", "IcebergSink ice.a.db.t: Writer")
    assert _told("insert-into_ice.db.t", nested) == {"n": "ice.db.t"}
    assert _told("insert-into_ice.db.t", replace(nested, hints={"connector": "iceberg"})) == {}


@pytest.mark.parametrize(
    ("name", "sinks"),
    [
        ("nightly", [PRINTED]),
        ("insert-into_", [PRINTED]),
        ("insert-into_c.d.other", [PRINTED]),
        ("insert-into_c.d.out,c.d.more", [PRINTED]),
        ("insert-into_c.d.a.b", [FILES]),
        ("insert-into_c.d.out,x.y.z", [PRINTED, ICE]),
        # Two tables of one name, and the sinks do not say which of them each is.
        ("insert-into_c.d.out,c.e.out", [PRINTED, _sink("out[9]: Writer")]),
        # Not the names of the sinks: two statements write one table.
        ("insert-into_c.d.out_1,c.d.out_2", [PRINTED, _sink("out[9]: Writer")]),
        ("insert-into_c.d.a,c.d.b", [FILES, _sink("Filesystem")]),
    ],
)
def test_a_name_that_does_not_tell_is_not_used(name: str, sinks: list[Endpoint]) -> None:
    assert _told(name, *sinks) == {}
