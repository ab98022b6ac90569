"""Files that are right: what they mean."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from tests.stream.config.examples import COMPLETE, ENVIRONMENT
from tests.stream.support import kafka_of

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import PartitionField
from frazil.core.schema import Field, StructType
from frazil.lake.files import MEGABYTE, FileOptions
from frazil.stream.config import (
    JsonFormat,
    Limits,
    PipelineConfig,
    Pipelines,
    load_pipelines,
    parse_pipelines,
)
from frazil.stream.config.kafka_settings import OWNED
from frazil.stream.kafka import consumer

SMALL = """\
kafka: {bootstrap.servers: "b:1"}
pipelines:
  p:
    source: {topics: t}
    schema: {id: long, at: timestamp}
    table: n.t
"""


def parsed(text: str, **environment: str) -> Pipelines:
    return parse_pipelines(text, environment=environment)


def small(old: str = "", new: str = "", **environment: str) -> PipelineConfig:
    (found,) = parsed(SMALL.replace(old, new) if old else SMALL + new, **environment).pipelines
    return found


def test_a_file_with_everything() -> None:
    found = parsed(COMPLETE, **ENVIRONMENT)
    assert (found.catalog.uri, found.catalog.warehouse, found.catalog.name) == (
        "http://localhost:8181",
        "lake",
        "ice",
    )
    assert found.catalog.token == ENVIRONMENT["CATALOG_TOKEN"]
    assert found.spark.master == "local[*]"
    assert found.spark.settings == {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    orders, events = found.pipelines
    assert kafka_of(orders).settings == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.password": ENVIRONMENT["KAFKA_PASSWORD"],
        "broker.version": "3",
        "socket.keepalive.enable": "true",
        "fetch.min.bytes": "1",
        "client.id": "12",
    }
    assert kafka_of(orders).topics == ("orders", "no")
    assert kafka_of(orders).start.at == {"orders": (0, 10)}
    assert orders.format == JsonFormat("ms")
    assert list(orders.schema) == [
        Field("order_id", "long", True),
        Field("amount", "decimal(10, 2)"),
        Field("event_time", "timestamptz"),
        Field("item", StructType((Field("sku", "string"), Field("n", "int"))), True, "what was bought"),
    ]
    assert (orders.table.namespace, orders.table.name) == (("shop",), "orders")
    assert orders.table.partitioning == (
        PartitionField("event_time", "day", "event_time_day"),
        PartitionField("order_id", "bucket[16]", "order_id_bucket"),
    )
    assert orders.table.files == FileOptions(64 * MEGABYTE, "gzip", 3)
    assert orders.table.properties == {"write.metadata.previous-versions-max": "20"}
    assert (orders.table.format_version, orders.freshness, orders.event_time) == (3, 30.0, "event_time")
    assert orders.limits == Limits(1000, 10)
    assert (kafka_of(events).topics, kafka_of(events).pattern) == ((), "events-.*")
    assert kafka_of(events).start.at == datetime(2026, 1, 1, tzinfo=UTC)
    assert events.freshness == 60.0
    assert events.table.files == FileOptions(MEGABYTE, "snappy")
    assert (events.table.namespace, events.table.name) == (("a.b",), "events")
    assert events.transform is not None
    assert events.transform.sql == "SELECT *, 'x' AS y FROM source"


def test_what_is_not_said_has_a_default() -> None:
    found = small()
    assert (found.freshness, found.format, found.limits) == (30.0, JsonFormat(), Limits())
    assert kafka_of(found).start.at == "earliest"
    assert found.table.files == FileOptions()
    assert found.table.format_version == 2


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("latest", "latest"),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_starting_points(written: str, meant: object) -> None:
    assert kafka_of(small("topics: t", f"topics: t, start: {written}")).start.at == meant


def test_text_stays_as_it_is_written() -> None:
    assert kafka_of(small("topics: t", "topics: [no, 007, 1.10, 2026-01-01]")).topics == (
        "no",
        "007",
        "1.10",
        "2026-01-01",
    )


def test_variables_and_their_escape() -> None:
    found = small('"b:1"', '"${HOST}:${PORT}", client.id: "$${HOST} $x"', HOST="broker", PORT="1")
    assert kafka_of(found).settings == {"bootstrap.servers": "broker:1", "client.id": "${HOST} $x"}
    assert small("", "    format_version: ${V}\n", V="3").table.format_version == 3


def test_anchors_and_merges() -> None:
    text = SMALL.replace("  p:\n", "  p: &first\n") + "  q:\n    <<: *first\n    table: n.u\n"
    p, q = parsed(text).pipelines
    assert (q.source, q.schema, q.table.name) == (p.source, p.schema, "u")


def test_defaults_give_what_a_pipeline_lacks() -> None:
    text = """\
kafka: {bootstrap.servers: "b:1"}
pipelines:
  p: {source: {pattern: "x.*"}, schema: {b: int}}
  q: {source: {start: latest}, table: n.q}
defaults:
  source: {topics: t}
  schema: {a: long}
  table: n.t
"""
    p, q = parsed(text).pipelines
    assert (kafka_of(p).topics, kafka_of(p).pattern) == ((), "x.*")
    assert [field.name for field in p.schema] == ["a", "b"]
    assert (kafka_of(q).topics, kafka_of(q).start.at, q.table.name) == (("t",), "latest", "q")


def test_two_pipelines_may_write_one_table() -> None:
    text = SMALL + SMALL.split("pipelines:\n")[1].replace("  p:", "  q:")
    assert [found.name for found in parsed(text).pipelines] == ["p", "q"]


def test_the_warehouse_of_the_environment() -> None:
    assert parsed(SMALL, FRAZIL_WAREHOUSE="lake").catalog.warehouse == "lake"
    assert parsed("catalog: {warehouse: own}\n" + SMALL, FRAZIL_WAREHOUSE="lake").catalog.warehouse == "own"


def test_a_function_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "config_transforms.py").write_text("class T:\n    @staticmethod\n    def f(df): return df\n")
    file = tmp_path / "pipelines.yaml"
    file.write_text(SMALL + "    transform: {python: 'config_transforms:T.f'}\n")
    (found,) = load_pipelines(file).pipelines
    assert found.transform is not None
    assert found.transform.function is not None
    assert found.transform.function("df") == "df"
    assert found.transform.reference == "config_transforms:T.f"


def test_a_function_beside_the_file_reaches_workers(tmp_path: Path) -> None:
    """With the module beside it that it uses: a worker has neither on its path."""
    package = tmp_path / "config_package"
    package.mkdir()
    (package / "__init__.py").write_text("def double(x): return 2 * x\n")
    (tmp_path / "config_sent.py").write_text(
        "from config_package import double\ndef f(df): return double(df)\n"
    )
    file = tmp_path / "pipelines.yaml"
    file.write_text(SMALL + "    transform: {python: 'config_sent:f'}\n")
    (found,) = load_pipelines(file).pipelines
    assert found.transform is not None
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    sent = dumps(found.transform.function).hex()
    worker = f"import pickle; print(pickle.loads(bytes.fromhex('{sent}'))(21))"
    shown = subprocess.run([sys.executable, "-c", worker], capture_output=True, text=True, check=False)
    assert shown.stdout.strip() == "42", shown.stderr


def test_a_module_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "config_broken.py").write_text("import no_such_thing\n")
    (tmp_path / "config_raising.py").write_text("1 / 0\n")
    file = tmp_path / "pipelines.yaml"
    for module, words in (("config_broken", "no_such_thing"), ("config_raising", "ZeroDivisionError")):
        file.write_text(SMALL + f"    transform: {{python: '{module}:f'}}\n")
        with pytest.raises(InvalidConfig, match=words):
            load_pipelines(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="No such file"):
        load_pipelines(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match="UTF-8"):
        load_pipelines(binary)
    marked = tmp_path / "marked.yaml"
    marked.write_text(SMALL, "utf-8-sig")
    assert load_pipelines(marked).pipelines


def test_aliases_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidConfig, match="aliases"):
        parsed("\n".join(lines))


def test_every_setting_that_the_reader_sets_is_refused() -> None:
    assert {*consumer._OURS, *consumer._GROUP} <= set(OWNED)


def test_secrets_are_not_shown() -> None:
    shown = repr(parsed(COMPLETE, **ENVIRONMENT))
    assert not any(secret in shown for secret in ENVIRONMENT.values())
    assert "localhost:9092" not in shown
