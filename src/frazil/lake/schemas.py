"""Schemas that Iceberg makes of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from frazil.core.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema_of(frame: DataFrame) -> Schema:
    """The table schema for the rows of a frame, as Iceberg itself converts it."""
    jvm = frame.sparkSession.sparkContext._jvm  # noqa: SLF001
    assert jvm is not None, "a running session has a JVM"
    iceberg = jvm.org.apache.iceberg
    converted = iceberg.spark.SparkSchemaUtil.convert(frame._jdf.schema())  # noqa: SLF001
    return Schema.from_json(msgspec.json.decode(iceberg.SchemaParser.toJson(converted)))
