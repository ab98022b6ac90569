"""Flink as the benchmark uses it. It downloads and starts much, so only `make test-all` runs this."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog

from frazil.core.errors import ServiceError
from frazil.devstack.flink import Flink
from frazil.devstack.frazil_server import FrazilServer

pytestmark = [pytest.mark.exhaustive, pytest.mark.services, pytest.mark.jvm]


@pytest.fixture(scope="module")
def flink() -> Iterator[Flink]:
    with Flink() as cluster:
        yield cluster


def test_statements_answer_with_rows(flink: Flink) -> None:
    assert flink.execute("SELECT * FROM (VALUES (1, 'a'), (2, 'b'))") == [[1, "a"], [2, "b"]]


def test_a_wrong_statement_is_explained(flink: Flink) -> None:
    with pytest.raises(ServiceError, match="no_such_table"):
        flink.execute("SELECT * FROM no_such_table")


def test_a_bounded_insert_lands_in_a_table_of_the_catalog(flink: Flink, frazil_sqlite: FrazilServer) -> None:
    flink.execute(
        "CREATE CATALOG ice WITH ('type'='iceberg','catalog-type'='rest',"
        f"'uri'='{frazil_sqlite.catalog_uri}')"
    )
    flink.execute("CREATE DATABASE ice.flink")
    flink.execute("CREATE TABLE ice.flink.numbers (id BIGINT)")
    flink.execute("SET 'table.exec.iceberg.use-v2-sink'='true'")
    job = flink.run("INSERT INTO ice.flink.numbers VALUES (1), (2), (3)", seconds=120)
    assert flink.job_state(job) == "FINISHED"
    table = RestCatalog("test", uri=frazil_sqlite.catalog_uri).load_table("flink.numbers")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_its_processes_end_with_it(flink: Flink) -> None:
    # Last in the file: the module's cluster is stopped and started again, on the same ports.
    before = flink.pids
    flink.restart()
    assert not set(before) & set(flink.pids)
    assert flink.execute("SELECT 1") == [[1]]
