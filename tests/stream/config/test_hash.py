"""The hash of a configuration: what changes it, and what does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.stream.config.examples import COMPLETE, ENVIRONMENT

from frazil.stream.config import Pipeline, parse_pipelines, pipeline
from frazil.stream.config.functions import fingerprint


def hashed(text: str = COMPLETE, **environment: str) -> str:
    return parse_pipelines(text, environment={**ENVIRONMENT, **environment}).pipelines[0].hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topics: [orders, no]", "topics: [no, orders]"),
        ("{orders: [0, 10]}", "latest"),
        ("freshness: 30s", "freshness: 1s"),
        ("records_per_round: 1000", "records_per_round: 999"),
        ("size: 64mb", "size: 32mb"),
        ("doc: what was bought", "doc: other words"),
        ("localhost:9092", "localhost:9093"),
        ("client.id: 12", "client.id: 13"),
        ("warehouse: lake", "warehouse: other"),
    ],
)
def test_what_does_not_decide_about_rows_does_not_count(old: str, new: str) -> None:
    assert old in COMPLETE
    assert hashed(COMPLETE.replace(old, new)) == hashed()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topics: [orders, no]", "topics: [orders]"),
        ("timestamps: ms", "timestamps: us"),
        ("order_id: long required", "order_id: long"),
        ("decimal(10, 2)", "decimal(10, 3)"),
        ("table: shop.orders", "table: shop.orders2"),
        ("[day(event_time), bucket(16, order_id)]", "[hour(event_time), bucket(16, order_id)]"),
        ("    table: shop.orders\n", "    table: shop.orders\n    transform: SELECT * FROM source\n"),
    ],
)
def test_what_decides_about_rows_counts(old: str, new: str) -> None:
    assert old in COMPLETE
    assert hashed(COMPLETE.replace(old, new)) != hashed()


def test_secrets_do_not_count() -> None:
    assert hashed(CATALOG_TOKEN="another", KAFKA_PASSWORD="another") == hashed()


def test_python_and_yaml_have_one_hash() -> None:
    made = Pipeline(
        "orders",
        topics=["orders", "no"],
        format={"json": {"timestamps": "ms"}},
        schema={
            "order_id": "long required",
            "amount": "decimal(10,2)",
            "event_time": "timestamptz",
            "item": {"type": "struct<sku: string, n: int>", "required": True},
        },
        table="shop.orders",
        partitioning=["day(event_time)", "bucket(16, order_id)"],
    )
    assert made.hash == hashed()


def clean(df):  # type: ignore[no-untyped-def]
    return df.where("id > 0")


def test_a_function_has_one_hash_however_it_is_named() -> None:
    text = f"""\
kafka: {{bootstrap.servers: "b:1"}}
pipelines:
  p:
    source: {{topics: t}}
    schema: {{id: long}}
    table: n.t
    transform: {{python: "{__name__}:clean"}}
"""
    (from_yaml,) = parse_pipelines(text).pipelines
    from_python = Pipeline("p", topics="t", schema={"id": "long"}, table="n.t", transform=clean)
    decorated = pipeline("p", topics="t", schema={"id": "long"}, table="n.t")(clean)
    assert from_yaml.hash == from_python.hash == decorated.hash
    assert from_python.hash != Pipeline("p", topics="t", schema={"id": "long"}, table="n.t").hash


def test_a_function_is_known_by_what_it_does() -> None:
    def one(df: str) -> str:
        # A comment does not count.
        return df + "a"

    def two(df: str) -> str:
        return df + "b"

    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(lambda df: df + "a") != fingerprint(lambda df: df + "b")
    assert fingerprint(eval("lambda df: df")) == fingerprint(eval("lambda df: df"))


def test_the_hash_is_the_same_in_every_process() -> None:
    program = (
        "from frazil.stream.config.functions import fingerprint\n"
        "print(fingerprint(eval(\"lambda x: x in {'a', 'b', 'c', 'd', 'e'}\")))"
    )
    found = {
        subprocess.check_output(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, text=True
        )
        for seed in "12"
    }
    assert len(found) == 1
