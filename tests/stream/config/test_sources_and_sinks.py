"""The keys of sources, formats, sinks, dead letters and contracts: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, StructType
from frazil.maintenance import Maintenance
from frazil.stream.config import PipelineConfig, parse_pipelines
from frazil.stream.config.model import (
    AvroFormat,
    Contract,
    CsvFormat,
    DatasetConfig,
    DeadLetters,
    FileSource,
    MetadataColumns,
    ParquetFormat,
    ProtobufFormat,
    RawFormat,
    Registry,
    SensorSource,
    Start,
    TableSource,
)

KAFKA = "kafka: {bootstrap.servers: 'localhost:9092'}\n"


def parsed(text: str, directory: Path | None = None, kafka: str = KAFKA) -> PipelineConfig:
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    (found,) = parse_pipelines(f"{kafka}pipelines:\n  p:\n{lines}\n", directory=directory).pipelines
    return found


def refusal(text: str, directory: Path | None = None) -> str:
    with pytest.raises(InvalidConfig) as found:
        parsed(text, directory)
    return found.value.message


def test_sources_without_kafka_need_no_brokers() -> None:
    files = parsed(
        """
source:
  files: {path: "s3://in/json/", pattern: "*.json", overwritten: stop, settings: {s3.endpoint: "http://s"}}
  start: latest
schema: {id: long}
table: a.b
""",
        kafka="",
    )
    assert files.source == FileSource(
        "s3://in/json", "*.json", {"s3.endpoint": "http://s"}, "stop", Start("latest")
    )
    sensors = parsed("source: {sensors: {sensors: 2, rate: 0.5, records: 7}}\ntable: a.b", kafka="")
    assert sensors.source == SensorSource(sensors=2, rate=0.5, records=7)
    assert [field.name for field in sensors.schema][:2] == ["sensor_id", "reading"]
    table = parsed("source: {table: shop.orders}\ntable: a.b", kafka="")
    assert (table.source, table.format) == (TableSource(("shop",), "orders"), ParquetFormat())
    told = parsed("source: {table: shop.orders, changes: true, start: latest}\ntable: a.b", kafka="")
    assert told.source == TableSource(("shop",), "orders", Start("latest"), changes=True)
    assert told.hash != table.hash


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{topics: t, files: /in}", "has 'topics' and 'files'; only one of them can be"),
        ("{sensors: {}, start: latest}", "start: this source has no such key"),
        ("{topics: t, changes: true}", "changes: this source has no such key"),
        ("{files: in}", "'in' is no place: write an absolute path"),
        ("{files: {path: /in, pattern: ../x}}", "is no pattern below the folder"),
        ("{files: /in, start: {t: [0]}}", "offsets are for topics; write earliest, latest or a time"),
        ("{sensors: {rate: -1}}", "'-1' is no rate"),
    ],
)
def test_sources_that_cannot_be(source: str, said: str) -> None:
    assert said in refusal(f"source: {source}\nschema: {{id: long}}\ntable: a.b")


def test_who_can_tell_where_a_transaction_ends() -> None:
    lines = "table: 'a.{table}'\nchanges: {whole_transactions: true}\n"
    database = "source: {postgres: {database: shop, user: u, password: p, tables: 'public.*'}}\n"
    for source in ("source: {topics: pg.inv.t}\nformat: debezium\n", database):
        changes = parsed(source + lines).changes
        assert changes is not None
        assert changes.whole_transactions
    registry = "registry: {url: 'https://r:1'}\n"
    for form in (
        f"{registry}format: {{debezium: {{encoding: avro}}}}",
        "format: {debezium: {envelope: flat}}",
    ):
        said = refusal(f"source: {{topics: pg.inv.t}}\n{form}\n{lines}")
        assert "whole_transactions needs Debezium's envelopes in JSON, or postgres as the source" in said


def test_formats(tmp_path: Path) -> None:
    base = "source: {topics: t}\nschema: {id: long}\ntable: a.b\n"
    assert parsed(base + "format: csv").format == CsvFormat()
    odd = parsed(base + 'format: {csv: {delimiter: ";", quote: "\'", header: true, no_value: "NULL"}}').format
    assert odd == CsvFormat(";", "'", True, "NULL")
    registry = 'registry: {url: "https://r:1/", username: u, password: secret-word}\n'
    avro = parsed(base + registry + "format: avro").format
    assert avro == AvroFormat(Registry("https://r:1", "u", "secret-word"))
    assert "secret-word" not in repr(avro)
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "o", "fields": []}')
    (tmp_path / "order.desc").write_bytes(b"\x0a\x00")
    inline = parsed(base + "format: {avro: {schema_file: order.avsc}}", tmp_path).format
    assert isinstance(inline, AvroFormat)
    assert inline.schema == '{"type": "record", "name": "o", "fields": []}'
    proto = parsed(base + "format: {protobuf: {descriptor_file: order.desc, message: a.O}}", tmp_path).format
    assert proto == ProtobufFormat(None, b"\x0a\x00", "a.O")
    raw = parsed("source: {topics: t}\ntable: a.b\nformat: raw")
    assert (raw.format, raw.schema.fields) == (RawFormat(), (Field("value", "binary"),))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("format: avro", "avro needs a 'registry', or a 'schema_file'"),
        ("format: protobuf", "protobuf needs a 'registry', or 'descriptor_file' and 'message'"),
        ("format: {avro: {schema_file: none.avsc}}", "cannot read none.avsc"),
        ("format: {csv: {delimiter: ab}}", "is not one character"),
        ("registry: ftp://x\nformat: avro", "http://host:port"),
        ("registry: http://u:pass-word@x\nformat: avro", "write username, password"),
        ("format: {json: {}, csv: {}}", "has 'json' and 'csv'; only one of them can be"),
    ],
)
def test_formats_that_cannot_be(lines: str, said: str, tmp_path: Path) -> None:
    told = refusal(f"source: {{topics: t}}\nschema: {{id: long}}\ntable: a.b\n{lines}", tmp_path)
    assert said in told
    assert "pass-word" not in told


def test_json_needs_columns() -> None:
    assert "there is no 'schema'" in refusal("source: {topics: t}\ntable: a.b")


def test_metadata_columns() -> None:
    base = "source: {topics: t}\nschema: {id: long}\ntable: a.b\n"
    found = parsed(base + "metadata: {offset: o, headers: h, key: k}")
    assert found.metadata == MetadataColumns(offset="o", headers="h", key="k")
    headers = ListType(StructType((Field("key", "string"), Field("value", "binary"))))
    assert found.source_schema.fields[1:] == (Field("o", "long"), Field("k", "binary"), Field("h", headers))
    assert "'id' and 'ID' are one name" in refusal(base + "metadata: {offset: ID}")


def test_bad_records() -> None:
    base = "source: {topics: t}\nschema: {id: long}\ntable: shop.orders\n"
    assert parsed(base).dead_letters == DeadLetters(("shop",), "orders_dead_letters")
    assert parsed(base + "dead_letters: stop").dead_letters is None
    assert parsed(base + "dead_letters: bad.records").dead_letters == DeadLetters(("bad",), "records")
    shared = parsed(base + "dead_letters: {stop_above: 2.5%}").dead_letters
    assert shared == DeadLetters(("shop",), "orders_dead_letters", 0.025)
    assert "this is the table of the rows" in refusal(base + "dead_letters: shop.orders")
    assert "is no share" in refusal(base + "dead_letters: {stop_above: 101%}")


def test_contracts() -> None:
    base = "source: {topics: t}\nschema: {id: long}\ntable: a.b\n"
    assert parsed(base + "contract: evolve").contract == Contract(columns="evolve", types="evolve")
    assert parsed(base + "contract: {tables: freeze}").contract == Contract(tables="freeze")
    assert "'evolv' is not legal; did you mean 'evolve'?" in refusal(base + "contract: evolv")
    told = refusal(base + "contract: evolve\ntransform: SELECT * FROM source")
    assert "behind a transform the table cannot follow the records" in told


def test_routed_tables() -> None:
    base = "source: {topics: t}\nschema: {id: long, kind: string}\n"
    found = parsed(base + 'table: "shop.{kind}_raw"')
    assert found.table.routed
    assert found.home == (("shop",), "raw_dead_letters")
    assert "there is no column 'kin'; legal in braces: topic, id, kind" in refusal(base + 'table: "s.{kin}"')
    nested = base.replace("kind: string", "kind: list<int>") + 'table: "s.{kind}"'
    assert "'kind' is a list<int>; only a single value can be in a name" in refusal(nested)
    assert "only the name can have {column}" in refusal(base + 'table: "{kind}.x"')
    assert "a brace stands alone" in refusal(base + 'table: "s.{kind"')
    assert "needs the dead-letter table" in refusal(base + 'table: "s.{kind}"\ndead_letters: stop')
    assert "only a single table can evolve" in refusal(base + 'table: "s.{kind}"\ncontract: evolve')


def test_datasets() -> None:
    base = "source: {topics: t}\nschema: {id: long}\n"
    found = parsed(base + "dataset: iot.readings")
    assert (found.dataset, found.dead_letters) == (DatasetConfig(("iot",), "readings"), None)
    lines = parsed(base + "dataset: {table: iot.readings, format: jsonl}").dataset
    assert lines == DatasetConfig(("iot",), "readings", "jsonl")
    assert "a dataset has no such thing" in refusal(base + "dataset: iot.r\npartitioning: id")
    assert "'table' and 'dataset'; only one of them can be" in refusal(base + "dataset: iot.r\ntable: a.b")
    assert "lacks 'table' or 'dataset'" in refusal(base)


def test_files_limits_and_maintenance() -> None:
    base = "source: {topics: t}\nschema: {id: long}\ntable: a.b\n"
    found = parsed(
        base + "files: {format: orc, compression: snappy}\nlimits: {bytes_per_record: 1kb}\nmaintenance: off"
    )
    assert (found.table.files.format, found.limits.bytes_per_record) == ("orc", 1024)
    assert found.maintenance == Maintenance(None, None)
    kept = parsed(base + "maintenance: {merge_every: 7, keep_snapshots: 2h, most_snapshots: 50}").maintenance
    assert kept == Maintenance(7, 7200.0, 50)


def test_a_pipeline_keeps_its_hash_when_nothing_new_is_said() -> None:
    """Pipelines of older versions must not look changed."""
    found = parsed("source: {topics: t}\nschema: {id: long}\ntable: a.b")
    assert found.hash == "1c009e24836c6ddb"
    again = parsed("source: {topics: t}\nschema: {id: long}\ntable: a.b\ncontract: evolve")
    assert again.hash != found.hash
