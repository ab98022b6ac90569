"""Pipelines written in Python."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest
from tests.stream.support import kafka_of

import frazil
from frazil.core.errors import InvalidConfig
from frazil.stream.config import CatalogConfig, SparkConfig, gather
from frazil.stream.config.keys import PIPELINE
from frazil.stream.config.python import PipelineOptions
from frazil.stream.config.shapes import Record

GIVEN: dict[str, Any] = {"topics": "orders", "schema": {"id": "long required"}, "table": "shop.orders"}
BROKERS = {"bootstrap.servers": "localhost:9092"}


def said(**options: Any) -> str:
    with pytest.raises(InvalidConfig) as raised:
        frazil.Pipeline("orders", **{**GIVEN, **options})
    return str(raised.value)


def test_python_values_mean_what_yaml_means() -> None:
    made = frazil.Pipeline(
        "orders",
        topics=("a", "b"),
        schema={"id": "long required", "at": {"type": "timestamp", "doc": "when"}},
        table="shop.orders",
        start=datetime(2026, 1, 1, tzinfo=UTC),
        kafka={"socket.keepalive.enable": True, "fetch.min.bytes": 1},
        freshness=timedelta(milliseconds=1500),
        partitioning="day(at)",
        event_time="at",
        files={"size": "1mb", "compression": "snappy"},
        limits={"records_per_round": 10, "records_per_task": 1},
    )
    assert kafka_of(made).start.at == datetime(2026, 1, 1, tzinfo=UTC)
    assert kafka_of(made).settings == {"socket.keepalive.enable": "true", "fetch.min.bytes": "1"}
    assert made.freshness == 1.5
    assert made.schema.field("at").doc == "when"
    assert made.limits.records_per_round == 10


def test_no_variables_in_python() -> None:
    assert kafka_of(frazil.Pipeline("orders", **GIVEN, kafka={"client.id": "${X}"})).settings == {
        "client.id": "${X}"
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"freshness": 30}, "Pipeline('orders'): freshness: '30' is no duration"),
        ({"fresnhess": "30s"}, "unknown keyword 'fresnhess'; did you mean 'freshness'?"),
        ({"pattern": "x"}, "'topics' and 'pattern'"),
        ({"topics": None}, "lacks 'topics' or 'pattern'"),
        ({"schema": {"id": "lonk"}}, "Pipeline('orders'), schema: column 'id': 'lonk' is no type"),
        ({"schema": object()}, "schema: a object cannot be given here"),
        ({"table": None}, "pipeline 'orders' lacks 'table'"),
        ({"transform": lambda: None}, "cannot be called with one DataFrame"),
        ({"transform": "SELECT 1"}, "does not read the view 'source'"),
        ({"kafka": {"group.id": "x"}}, "the Kafka setting 'group.id' is frazil's own"),
        ({"files": {"size": 1}}, "Pipeline('orders'), files: size: '1' is no size"),
        ({"format_version": 4}, "format_version is 4"),
        ({"limits": {"records_per_task": True}}, "write a whole number"),
    ],
)
def test_errors_name_the_keyword(options: dict[str, Any], words: str) -> None:
    assert words in said(**options)


def test_all_errors_at_once() -> None:
    assert len(said(freshness="x", event_time="y", table="z").splitlines()) == 3


def test_the_decorator_makes_a_pipeline() -> None:
    @frazil.pipeline("orders", **GIVEN)
    def orders(df: Any) -> Any:
        return df.where("id > 0")

    assert orders.name == "orders"
    assert orders.transform is not None
    assert orders.transform.reference is not None
    assert orders.transform.reference.endswith("orders")


def test_keywords_are_the_keys_of_yaml() -> None:
    source = PIPELINE.keys["source"].shape
    assert isinstance(source, Record)
    yaml = {*PIPELINE.keys, "topics", "pattern", "start", "history", "kafka"} - {"transform"}
    assert set(get_type_hints(PipelineOptions)) == yaml


def test_gather_makes_what_a_file_holds() -> None:
    one = frazil.Pipeline("one", **GIVEN, kafka={"client.id": "one"})
    two = frazil.Pipeline("two", **GIVEN)
    found = gather([one, two], catalog="http://here", kafka=BROKERS, spark={"master": "local[1]"})
    assert found.catalog == CatalogConfig(uri="http://here")
    assert found.spark == SparkConfig("local[1]")
    assert [kafka_of(made).settings for made in found.pipelines] == [{**BROKERS, "client.id": "one"}, BROKERS]
    assert [made.hash for made in found.pipelines] == [one.hash, two.hash]


def test_gather_refuses_what_a_file_would() -> None:
    one = frazil.Pipeline("one", **GIVEN)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "no brokers"),
        ({"kafka": {**BROKERS, "group.id": "x"}}, "'group.id' is frazil's own"),
        ({"kafka": BROKERS, "spark": {"mister": "x"}}, "did you mean 'master'"),
        ({"kafka": BROKERS, "catalog": {"url": "x"}}, "did you mean 'uri'"),
    ]
    for options, words in wrong:
        with pytest.raises(InvalidConfig, match=words):
            gather([one], **options)
    with pytest.raises(InvalidConfig, match="another one of this name"):
        gather([one, one], kafka=BROKERS)


def test_exports_are_there_and_typed() -> None:
    assert set(frazil.__all__) <= set(dir(frazil))
    for name in frazil.__all__:
        assert getattr(frazil, name) is not None
    with pytest.raises(AttributeError, match="no_such"):
        _ = frazil.no_such  # type: ignore[attr-defined]


def test_import_is_instant() -> None:
    program = (
        "import sys, frazil; print(sorted(m for m in sys.modules if m.startswith(('frazil', 'pyarrow'))))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['frazil']"
