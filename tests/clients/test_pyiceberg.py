"""PyIceberg through a running server, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import ViewVersion
from tests.clients.support import call, files_below, local, metric, plant, wait_until

from frazil.devstack.frazil_server import FrazilServer

Fresh = Callable[[], str]

FLOES = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seen", pa.timestamp("us", tz="UTC"))])


pytestmark = pytest.mark.services


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def server(request: pytest.FixtureRequest, database: str) -> FrazilServer:
    found: FrazilServer = request.getfixturevalue(f"frazil_{database}")
    return found


@pytest.fixture
def catalog(request: pytest.FixtureRequest, database: str) -> Catalog:
    found: Catalog = request.getfixturevalue(f"pyiceberg_{database}")
    return found


def floes(*ids: int, name: str = "floe") -> pa.Table:
    seen = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number) for number in ids]
    return pa.table({"id": ids, "name": [f"{name} {n}" for n in ids], "seen": seen}, schema=FLOES)


def ids(table: Table, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def new_table(catalog: Catalog, namespace: str, name: str = "floes", **options: Any) -> Table:
    catalog.create_namespace_if_not_exists(namespace)
    return catalog.create_table((namespace, name), schema=FLOES, **options)


def test_namespaces(catalog: Catalog, fresh: Fresh) -> None:
    top = fresh()
    catalog.create_namespace(top, {"owner": "ice"})
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(top)
    catalog.create_namespace((top, "inner"))
    catalog.create_namespace((top, "inner", "with.dot"))
    assert catalog.list_namespaces(top) == [(top, "inner")]
    assert catalog.list_namespaces((top, "inner")) == [(top, "inner", "with.dot")]
    summary = catalog.update_namespace_properties(top, removals={"owner"}, updates={"place": "north"})
    assert (summary.removed, summary.updated) == (["owner"], ["place"])
    assert catalog.load_namespace_properties(top)["place"] == "north"
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(top)
    for levels in ((top, "inner", "with.dot"), (top, "inner"), (top,)):
        catalog.drop_namespace(levels)
    assert not catalog.namespace_exists(top)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(top)


def test_append_overwrite_delete(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh())
    table.append(floes(1, 2, 3))
    table.append(floes(4), snapshot_properties={"run": "7"})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["run"] == "7"
    table.overwrite(floes(20, name="big"), overwrite_filter="id = 2")
    assert ids(table) == [1, 3, 4, 20]
    table.delete("id < 4")
    assert ids(catalog.load_table(table.name())) == [4, 20]
    assert ids(table, snapshot_id=snapshot.snapshot_id) == [1, 2, 3, 4]


def test_upsert(catalog: Catalog, fresh: Fresh) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        identifier_field_ids=[1],
    )
    namespace = fresh()
    catalog.create_namespace(namespace)
    table = catalog.create_table((namespace, "keyed"), schema=schema)
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=arrow))
    result = table.upsert(pa.table({"id": [2, 3], "name": ["B", "c"]}, schema=arrow))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert sorted(table.scan().to_arrow()["name"].to_pylist()) == ["B", "a", "c"]


def test_schema_and_partition_evolution(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh(), properties={"owner": "ice"})
    table.append(floes(1))
    with table.update_schema() as schema:
        schema.add_column("area", LongType(), doc="square metres")
        schema.rename_column("name", "label")
        schema.move_first("area")
    with table.update_spec() as spec:
        spec.add_field("label", IdentityTransform(), "place")
    with table.transaction() as change:
        change.set_properties({"reader": "bear"})
        change.remove_properties("owner")
    table.append(
        pa.table({"area": [9], "id": [2], "label": ["x"], "seen": [dt.datetime(2026, 2, 2, tzinfo=dt.UTC)]})
    )
    with table.update_spec() as spec:
        spec.remove_field("place")
        spec.add_field("id", BucketTransform(4), "bucket")
        spec.add_field("seen", DayTransform(), "day")
    loaded = catalog.load_table(table.name())
    assert len(loaded.specs()) == 3
    assert loaded.schema().column_names == ["area", "id", "label", "seen"]
    assert [field.name for field in loaded.spec().fields] == ["bucket", "day"]
    assert loaded.properties["reader"] == "bear"
    assert "owner" not in loaded.properties
    assert loaded.scan().to_arrow().sort_by("id")["area"].to_pylist() == [None, 9]
    with loaded.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("area")
    assert "area" not in catalog.load_table(table.name()).schema().column_names


def test_branches_and_tags(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh())
    table.append(floes(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "start").create_branch(
        first.snapshot_id, "trial"
    ).commit()
    table.append(floes(2), branch="trial")
    table.append(floes(3))
    loaded = catalog.load_table(table.name())
    assert set(loaded.refs()) == {"main", "start", "trial"}
    assert ids(loaded) == [1, 3]
    trial = loaded.snapshot_by_name("trial")
    assert trial is not None
    assert ids(loaded, snapshot_id=trial.snapshot_id) == [1, 2]
    loaded.manage_snapshots().remove_tag("start").remove_branch("trial").commit()
    loaded.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert set(catalog.load_table(table.name()).refs()) == {"main"}
    assert ids(catalog.load_table(table.name())) == [1]


def test_transaction_is_one_commit(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh())
    before = table.metadata_location
    with table.transaction() as change:
        with change.update_schema() as schema:
            schema.add_column("area", LongType())
        change.set_properties({"step": "both"})
        change.append(floes(1).append_column("area", pa.array([5], pa.int64())))
    loaded = catalog.load_table(table.name())
    assert [entry.metadata_file for entry in loaded.metadata.metadata_log] == [before]
    assert loaded.scan().to_arrow()["area"].to_pylist() == [5]

    class Stop(Exception):
        pass

    with contextlib.suppress(Stop), loaded.transaction() as change:
        change.set_properties({"step": "never"})
        raise Stop
    assert catalog.load_table(table.name()).properties["step"] == "both"


def test_staged_create(catalog: Catalog, fresh: Fresh) -> None:
    namespace = fresh()
    catalog.create_namespace(namespace)
    with catalog.create_table_transaction((namespace, "staged"), schema=FLOES) as change:
        assert not catalog.table_exists((namespace, "staged"))
        change.append(floes(1, 2))
    assert ids(catalog.load_table((namespace, "staged"))) == [1, 2]


def test_a_stale_writer_is_told(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh())
    stale = catalog.load_table(table.name())
    with table.update_schema() as schema:
        schema.add_column("mine", LongType())
    with pytest.raises(CommitFailedException, match="current schema"), stale.update_schema() as schema:
        schema.add_column("yours", LongType())
    assert "yours" not in catalog.load_table(table.name()).schema().column_names


def test_rename_and_register(catalog: Catalog, fresh: Fresh) -> None:
    namespace, other = fresh(), fresh()
    table = new_table(catalog, namespace)
    table.append(floes(1, 2))
    catalog.create_namespace(other)
    catalog.rename_table(table.name(), (other, "moved"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(table.name())
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((other, "Moved"), schema=FLOES)
    moved = catalog.load_table((other, "moved"))
    catalog.drop_table((other, "moved"))
    registered = catalog.register_table((namespace, "again"), moved.metadata_location)
    assert ids(registered) == [1, 2]
    assert registered.metadata.table_uuid == table.metadata.table_uuid
    registered.append(floes(3))
    assert ids(catalog.load_table((namespace, "again"))) == [1, 2, 3]


def test_views(catalog: Catalog, fresh: Fresh) -> None:
    namespace = fresh()
    new_table(catalog, namespace)
    sql = f"SELECT id FROM {namespace}.floes"
    version = ViewVersion.model_validate(
        {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1_750_000_000_000,
            "summary": {"engine-name": "test"},
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
            "default-namespace": [namespace],
        }
    )
    schema = Schema(NestedField(1, "id", LongType()))
    view = catalog.create_view((namespace, "ids"), schema, version)
    assert catalog.list_views(namespace) == [(namespace, "ids")]
    assert catalog.list_tables(namespace) == [(namespace, "floes")]
    loaded = catalog.load_view((namespace, "ids"))
    found = loaded.sql_for("spark")
    assert found is not None
    assert found.sql == sql
    assert loaded.uuid() == view.uuid()
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((namespace, "ids"), schema=FLOES)
    catalog.drop_view((namespace, "ids"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "ids"))


def test_purge_takes_every_file_and_no_other(catalog: Catalog, server: FrazilServer, fresh: Fresh) -> None:
    table = new_table(catalog, fresh(), properties={"write.metadata.previous-versions-max": "50"})
    for number in range(3):
        table.append(floes(number))
    table.delete("id = 1")
    stranger = plant(table.location())
    files = files_below(table.location()) - {stranger}
    assert len(files) > 10
    purged = metric(server, "frazil_purged_files_total")
    catalog.purge_table(table.name())
    assert not catalog.table_exists(table.name())
    wait_until(lambda: files_below(table.location()) == {stranger}, "files of a purged table are left")
    wait_until(
        lambda: metric(server, "frazil_purged_files_total") == purged + len(files), "the server counts them"
    )


def test_drop_keeps_files_and_gc_forbids_purge(catalog: Catalog, fresh: Fresh) -> None:
    table = new_table(catalog, fresh(), properties={"gc.enabled": "false"})
    table.append(floes(1))
    files = files_below(table.location())
    with pytest.raises(BadRequestError, match=r"gc\.enabled"):
        catalog.purge_table(table.name())
    assert ids(catalog.load_table(table.name())) == [1]
    catalog.drop_table(table.name())
    assert files_below(table.location()) == files
    assert local(table.metadata_location).is_file()


def test_a_table_that_waits_to_be_purged_cannot_come_back(
    server: FrazilServer, tmp_path: Path, fresh: Fresh
) -> None:
    def waiting(seconds: int) -> Catalog:
        """A warehouse that purges so long after a drop."""
        name = fresh()
        body = {
            "warehouse-name": name,
            "storage-profile": {"type": "local", "path": str(tmp_path / name)},
            "delete-profile": {"type": "soft", "expiration-seconds": seconds},
        }
        status, answer = call("POST", f"{server.management_uri}/warehouse", body)
        assert status == 201, answer
        return load_catalog("slow", type="rest", uri=server.catalog_uri, warehouse=name)

    # However long the attempts take here: the purge is not due before they are over.
    with waiting(3600) as catalog:
        table = new_table(catalog, "ns")
        table.append(floes(1))
        older = table.metadata_location
        table.append(floes(2))
        files = files_below(table.location())
        catalog.purge_table(table.name())
        assert files_below(table.location()) == files
        # Registered, it would be a live table whose files vanish when the purge falls due.
        for metadata in (table.metadata_location, older):
            with pytest.raises(TableAlreadyExistsError, match="purge"):
                catalog.register_table(("ns", "again"), metadata)
        assert files_below(table.location()) == files
    with waiting(2) as catalog:
        table = new_table(catalog, "ns")
        table.append(floes(1))
        assert files_below(table.location())
        catalog.purge_table(table.name())
        wait_until(lambda: not files_below(table.location()), "the purge is due after two seconds")
