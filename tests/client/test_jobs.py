"""Which job wrote which table, as the client tells it."""

from __future__ import annotations

import uuid
from typing import assert_type

import pytest
from tests.catalog.api.client import add_snapshot, connect, set_ref

from frazil.client import AsyncClient, Client, WritingJob, WrittenTable
from frazil.client.paging import PAGE_SIZE
from frazil.core.errors import InvalidInput, NoSuchTable, NotFound
from frazil.devstack.frazil_server import FrazilServer


def write(server: FrazilServer, namespace: str, name: str, job: str) -> None:
    """A table with one snapshot, made as Flink would."""
    catalog = connect(server.port)
    catalog.create_table([namespace], name).ok()
    summary = {"operation": "append", "flink.job-id": job, "flink.max-committed-checkpoint-id": "1"}
    catalog.commit([namespace], name, add_snapshot(1, summary=summary), set_ref(1)).ok()
    catalog.client.close()


async def test_by_job_and_by_table(frazil_sqlite: FrazilServer, client: Client, namespace: str) -> None:
    job = uuid.uuid4().hex
    write(frazil_sqlite, namespace, "Orders", job)
    (table,) = client.jobs.tables("flink", job)
    assert_type(table, WrittenTable)
    assert (table.namespace, table.name) == ((namespace,), "Orders")
    assert (table.commits, table.last_snapshot_id, table.dropped_at_ms) == (1, 1, None)
    (found,) = client.jobs.of_table(namespace, "orders")
    assert_type(found, WritingJob)
    assert (found.kind, found.id, found.last_timestamp_ms) == ("flink", job, table.last_timestamp_ms)
    async with AsyncClient(frazil_sqlite.uri) as other:
        assert [each async for each in other.jobs.tables("flink", job)] == [table]
        assert [each async for each in other.jobs.of_table(namespace, "orders")] == [found]
    client.tables.drop(namespace, "orders")
    assert list(client.jobs.tables("flink", job)) == []
    (gone,) = client.jobs.tables("flink", job, dropped=True)
    assert gone.dropped_at_ms


def test_ids_of_any_kind(frazil_sqlite: FrazilServer, client: Client, namespace: str) -> None:
    job = f"{uuid.uuid4().hex}/../a b+c%?#"
    write(frazil_sqlite, namespace, "t", job)
    assert [table.name for table in client.jobs.tables("flink", job)] == ["t"]


def test_more_jobs_than_a_page(frazil_sqlite: FrazilServer, client: Client, namespace: str) -> None:
    catalog = connect(frazil_sqlite.port)
    catalog.create_table([namespace], "t").ok()
    wanted = [f"job-{number:05d}" for number in range(PAGE_SIZE + 5)]
    for first in range(0, len(wanted), 400):
        updates = [
            add_snapshot(first + number + 1, summary={"flink.job-id": job})
            for number, job in enumerate(wanted[first : first + 400])
        ]
        catalog.commit([namespace], "t", *updates).ok()
    assert [found.id for found in client.jobs.of_table(namespace, "t")] == wanted


def test_what_is_not_there(client: Client, namespace: str) -> None:
    assert list(client.jobs.tables("spark", "none")) == []
    with pytest.raises(InvalidInput, match="flink, frazil, spark"):
        list(client.jobs.tables("storm", "x"))
    with pytest.raises(NoSuchTable):
        list(client.jobs.of_table(namespace, "none"))
    with pytest.raises(NotFound):
        list(client.at(str(uuid.uuid4())).jobs.tables("flink", "x"))
