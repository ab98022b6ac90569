from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.stream.support import PATIENCE
from tests.stream.test_formats import MORE, ORDER, avro
from tests.stream.trail import Trail

from frazil.client import Client
from frazil.core.schema import Schema
from frazil.devstack.registry import SchemaRegistry
from frazil.devstack.seaweed import ObjectStore
from frazil.stream import registry as registry_module
from frazil.stream.config.model import AvroFormat, Contract, Registry, Transform
from frazil.stream.verify import Verdict, Verification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def trail(kafka: Any, spark: SparkSession, frazil_sqlite: Any) -> Trail:
    """A topic of two partitions, a table, and the pipeline between them."""
    return Trail.make(kafka, spark, frazil_sqlite)


def verdicts(found: Verification) -> dict[str, str]:
    return {check.name: check.verdict.value for check in found.checks}


ALL_OK = {"log": "ok", "commits": "ok", "rows": "ok", "content": "ok"}


def test_after_runs_log_and_table_agree(trail: Trail) -> None:
    assert trail.verify().verdict is Verdict.UNKNOWN
    trail.produce(50)
    trail.run()
    trail.produce(30)
    trail.run()
    found = trail.verify()
    assert verdicts(found) == ALL_OK
    assert found.verdict is Verdict.OK
    assert [(part.first, part.records, part.without_record) for part in found.partitions] == [
        (0, 40, 0),
        (0, 40, 0),
    ]
    # What is in the log and not yet read is no difference.
    trail.produce(10)
    assert trail.verify().verdict is Verdict.OK


def test_transactions_leave_offsets_without_a_record(trail: Trail) -> None:
    trail.transaction(10, commit=True)
    trail.transaction(6, commit=False)
    trail.produce(4)
    trail.run()
    found = trail.verify()
    assert verdicts(found) == ALL_OK
    assert sum(part.records or 0 for part in found.partitions) == 14
    # Two markers in each partition, and the aborted records.
    assert sum(part.without_record or 0 for part in found.partitions) == 10


def test_removed_rows_are_found(trail: Trail) -> None:
    trail.produce(50)
    trail.run()
    trail.sql("DELETE FROM {table} WHERE id < 5")
    found = trail.verify()
    assert verdicts(found) == ALL_OK | {"rows": "wrong", "content": "wrong"}
    assert found.verdict is Verdict.WRONG
    assert "45 rows" in text(found, "rows")
    assert "overwrite" in text(found, "rows")


def test_rows_removed_by_delete_files_are_found(trail: Trail) -> None:
    trail.produce(50)
    trail.run()
    trail.sql("ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    trail.sql("DELETE FROM {table} WHERE id < 5")
    found = trail.verify()
    assert verdicts(found)["rows"] == "wrong"
    assert "45 rows" in text(found, "rows")


def test_rows_that_came_twice_are_found(trail: Trail) -> None:
    trail.produce(50)
    trail.run()
    trail.sql("INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")
    found = trail.verify()
    assert found.verdict is Verdict.WRONG
    assert verdicts(found)["rows"] == "wrong"
    assert "+1 -0 rows" in text(found, "rows")


def test_one_changed_value_is_found(trail: Trail) -> None:
    trail.produce(50)
    trail.run()
    trail.sql("UPDATE {table} SET word = 'other' WHERE id = 7")
    found = trail.verify()
    assert verdicts(found) == ALL_OK | {"content": "wrong"}


def test_compaction_changes_nothing(trail: Trail) -> None:
    for _ in range(3):
        trail.produce(20)
        trail.run()
    trail.sql(
        "CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )
    assert trail.verify().verdict is Verdict.OK


def test_a_trimmed_log_is_compared_from_where_it_begins(trail: Trail) -> None:
    trail.produce(40)
    trail.run()
    trail.produce(20)
    trail.run()
    trail.trim(0, 5)
    found = trail.verify()
    assert found.verdict is Verdict.UNKNOWN
    assert "5 offsets were removed" in text(found, "log")
    # From the first commit on everything is there: those rows are compared.
    assert [check.verdict.value for check in found.checks if check.name == "content"] == ["ok"]
    assert [(part.first, part.records, part.trimmed) for part in found.partitions] == [
        (20, 10, 5),
        (20, 10, 0),
    ]
    trail.sql("DELETE FROM {table} WHERE id = 50")
    assert trail.verify().verdict is Verdict.WRONG


def test_a_topic_made_again_cannot_be_compared(trail: Trail) -> None:
    trail.produce(10)
    trail.run()
    trail.make_topic_again()
    found = trail.verify()
    assert found.verdict is Verdict.UNKNOWN
    assert verdicts(found) == {"log": "cannot be known", "commits": "ok", "rows": "ok"}


def test_expired_snapshots_are_said(trail: Trail) -> None:
    for _ in range(3):
        trail.produce(20)
        trail.run()
    trail.sql(
        "CALL {catalog}.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2999-01-01', "
        "retain_last => 2)"
    )
    found = trail.verify()
    assert found.verdict is Verdict.UNKNOWN
    assert "snapshots have expired" in text(found, "commits")
    assert [check.verdict.value for check in found.checks if check.name == "content"] == ["ok"]


def test_tables_that_others_write_to_as_well(trail: Trail) -> None:
    """Another pipeline's rows are told from ours by the names of their files."""
    trail.produce(30)
    trail.run()
    other = trail.beside()
    other.produce(20)
    other.run()
    trail.produce(10)
    trail.run()
    assert verdicts(trail.verify()) == verdicts(other.verify()) == ALL_OK
    trail.sql("DELETE FROM {table} WHERE id = 3")
    found = trail.verify()
    assert verdicts(found) == {
        "log": "ok",
        "commits": "ok",
        "rows": "cannot be known",
        "content": "cannot be known",
    }


def test_a_transform_is_counted(trail: Trail) -> None:
    half = Transform(sql="SELECT * FROM source WHERE id % 2 = 0")
    changed = trail.changed(transform=half)
    changed.produce(40)
    changed.run()
    found = changed.verify()
    assert verdicts(found) == {"log": "ok", "commits": "ok", "rows": "ok"}
    assert found.verdict is Verdict.OK
    assert found.stamp is not None
    assert (found.stamp.read, found.stamp.written) == (40, 20)
    assert "transform" in found.notes[0]


def test_rows_of_an_older_configuration_are_counted(trail: Trail) -> None:
    trail.produce(10)
    trail.run()
    found = trail.changed(hash="another").verify()
    assert verdicts(found) == ALL_OK | {"content": "cannot be known"}


def test_a_column_that_others_added_changes_nothing(trail: Trail) -> None:
    trail.produce(20)
    trail.run()
    trail.sql("ALTER TABLE {table} ADD COLUMN extra string")
    assert trail.verify().verdict is Verdict.OK
    trail.sql("ALTER TABLE {table} RENAME COLUMN word TO term")
    assert verdicts(trail.verify()) == ALL_OK | {"content": "cannot be known"}


def test_rows_with_columns_of_a_registry_are_compared(
    trail: Trail, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = registry.register(f"{trail.topic}-value", json.dumps(ORDER))
    trail = trail.changed(format=AvroFormat(Registry(registry.url)), schema=Schema(()))
    producer = Producer({"bootstrap.servers": trail.kafka.bootstrap_servers, "log_level": 0})
    for one in range(10):
        producer.produce(trail.topic, avro(number, ORDER, id=one, at=one, tags=["a"]), partition=one % 2)
    assert producer.flush(PATIENCE) == 0
    trail.run()
    assert verdicts(trail.verify()) == ALL_OK
    # A newer schema on the registry is not one of the table.
    registry.register(f"{trail.topic}-value", json.dumps(MORE))
    assert verdicts(trail.verify()) == ALL_OK
    trail.sql("UPDATE {table} SET tags = array('b') WHERE id = 7")
    assert verdicts(trail.verify())["content"] == "wrong"
    monkeypatch.setattr(registry_module, "_FIRST_PAUSE", 0.001)
    found = trail.changed(format=AvroFormat(Registry("http://127.0.0.1:1"))).verify()
    assert verdicts(found)["log"] == "cannot be known"
    assert "127.0.0.1:1" in text(found, "log")


def test_tables_in_a_bucket_are_read_with_vended_keys(trail: Trail, object_store: ObjectStore) -> None:
    place, credential = object_store.warehouse_storage("verify", trail.config.name)
    with Client(trail.server.uri) as client:
        client.warehouses.create(trail.config.name, place, credential)
    trail.warehouse = trail.config.name
    trail.produce(20)
    trail.run()
    assert verdicts(trail.verify()) == ALL_OK


def text(found: Verification, name: str) -> str:
    return " ".join(check.text for check in found.checks if check.name == name)


def test_a_table_that_grew_with_its_records(trail: Trail) -> None:
    """Rows are compared in all columns, those that records brought along as well."""
    trail = trail.changed(contract=Contract(columns="evolve", types="evolve"))
    trail.produce(10)
    trail.run()
    trail.produce(10, extra=7)
    trail.run()
    assert verdicts(trail.verify()) == ALL_OK
