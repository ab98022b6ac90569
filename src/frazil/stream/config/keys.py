"""Every key of `pipelines.yaml`. The loader, the published schema and the documents are made of this."""

from __future__ import annotations

import re

from frazil.client.address import server_uri
from frazil.client.naming import identifier
from frazil.core.durations import parse_duration
from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import parse_partitioning
from frazil.core.stamp import check_pipeline_name
from frazil.stream.config import values
from frazil.stream.config.change_keys import CHANGES
from frazil.stream.config.shapes import (
    Count,
    Either,
    JsonSchema,
    Key,
    ListOf,
    MapOf,
    Record,
    Setting,
    Text,
    Truth,
)
from frazil.stream.config.source_keys import FORMAT, KAFKA, METADATA, REGISTRY, SOURCE

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")
_OWN_PROPERTY = re.compile(r"frazil\.|format-version$")


def _property_problem(name: str) -> str | None:
    if _OWN_PROPERTY.match(name) is None:
        return None
    if name == "format-version":
        return "the table property 'format-version' has its own key: write 'format_version'"
    return f"the table property '{name}' is frazil's own; leave it out"


def pipeline_problem(name: str) -> str | None:
    """Why a pipeline cannot be called that, or None."""
    try:
        check_pipeline_name(name)
    except InvalidConfig as error:
        return error.message
    return None


def _spark_problem(name: str) -> str | None:
    if name == "spark.master":
        return "'spark.master' has its own key: write 'master' above 'settings'"
    return None if name.startswith("spark.") else f"'{name}' is no Spark setting: those begin with 'spark.'"


def _column_problem(name: str) -> str | None:
    return None if name.strip() and name.isprintable() else "a column needs a name"


_TYPE = "a type such as long, decimal(10, 2), timestamptz or list<string>, and 'required' for NOT NULL"
_COLUMN = Either(
    Text(_TYPE, values.column),
    table=Record(
        {
            "type": Key(Text(_TYPE, values.column), "Its type, as Iceberg names them.", required=True),
            "required": Key(Truth(), "Whether a record without it is an error.", "false"),
            "doc": Key(Text("text"), "What it holds; becomes the comment of the column."),
        }
    ),
    legal=_TYPE,
)

_TRANSFORM = Either(
    Text("SQL over the view 'source', such as SELECT * FROM source"),
    table=Record(
        {
            "python": Key(
                Text("module:function", pattern=r"^[\w.]+:[\w.]+$"),
                "A function from DataFrame to DataFrame, as module:function; the module may lie beside "
                "this file.",
                required=True,
            )
        }
    ),
    functions=True,
    legal="SQL over the view 'source', or a mapping such as {python: module:function}",
)

_SIZE = r"^\d+(\.\d+)?\s*[kKmMgG]i?[bB]$"
_FILES = Record(
    {
        "size": Key(
            Text("a size such as 128mb", values.size, _SIZE),
            "When a file reaches this size, the next one is begun.",
            "128mb",
        ),
        "compression": Key(
            Text(", ".join(COMPRESSIONS), words=COMPRESSIONS), "How data is compressed.", "zstd"
        ),
        "format": Key(
            Text("parquet, orc or avro", words=("parquet", "orc", "avro")),
            "What the data files of the table are.",
            "parquet",
        ),
        "compression_level": Key(Count(), "For zstd 1 to 22, for gzip 1 to 9.", "the library's own"),
    }
)

_LIMITS = Record(
    {
        "records_per_round": Key(
            Count(),
            "At most this many records are committed at once.",
            "4000000; of changes 1000000, of a dataset 500000",
        ),
        "records_per_task": Key(
            Count(), "A task gets at least this many, so that small rounds make few files.", "100000"
        ),
        "bytes_per_round": Key(
            Text("a size such as 4gb", values.bytes_, _SIZE), "Of files: at most so much at once.", "4gb"
        ),
        "bytes_per_record": Key(
            Text("a size such as 16mb", values.bytes_, _SIZE), "A larger record is a bad one.", "16mb"
        ),
    }
)

_DATASET = Either(
    Text("namespace.name, such as iot.readings", identifier),
    table=Record(
        {
            "table": Key(
                Text("namespace.name, such as iot.readings", identifier), "The generic table.", required=True
            ),
            "format": Key(
                Text("json, jsonl, csv or parquet", words=("json", "jsonl", "csv", "parquet")),
                "What a file is: one JSON array, JSON lines, CSV with a header, or Parquet.",
                "json",
            ),
        }
    ),
    legal="namespace.name, or a mapping with table and format",
)
_LETTERS = "stop, or namespace.name of a table"
_DEAD_LETTERS = Either(
    Text(_LETTERS, lambda text: text if text == "stop" else identifier(text)),
    table=Record(
        {
            "table": Key(
                Text("namespace.name of a table", identifier), "Where they go.", "the table's _dead_letters"
            ),
            "stop_above": Key(
                Text("a share such as 1%", values.share, r"^\d+(\.\d+)?\s*%$"),
                "The pipeline stops when more than this share of a round is bad.",
                "never",
            ),
        }
    ),
    legal=f"{_LETTERS}, or a mapping with table and stop_above",
)
_WORDS = ("evolve", "freeze", "discard_row", "discard_value")
_WORD = Text(", ".join(_WORDS), words=_WORDS)
_CONTRACT = Either(
    _WORD,
    table=Record(
        {
            "tables": Key(_WORD, "Rows for a table that is not there.", "evolve"),
            "columns": Key(_WORD, "A field that no column has.", "discard_value"),
            "types": Key(_WORD, "A value that does not fit its column.", "discard_row"),
        }
    ),
    legal=f"one of {', '.join(_WORDS)} for columns and types, or a mapping with tables, columns, types",
)
_MAINTENANCE = Either(
    Text("off", words=("off",)),
    table=Record(
        {
            "merge_every": Key(Count(), "Small files are merged after so many commits.", "100"),
            "keep_snapshots": Key(
                Text("a duration such as 1d", parse_duration, r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"),
                "Older snapshots expire, but for what pipelines need.",
                "1d",
            ),
            "most_snapshots": Key(Count(), "Beyond this number younger ones expire as well.", "3000"),
        }
    ),
    legal="off, or a mapping with merge_every, keep_snapshots and most_snapshots",
)

_CHECKPOINT = "a folder such as /var/lib/frazil/clicks or s3a://bucket/checkpoints/clicks"
_STATEFUL = Either(
    Text(_CHECKPOINT, values.checkpoint),
    table=Record(
        {
            "checkpoint": Key(
                Text(_CHECKPOINT, values.checkpoint),
                "Where Structured Streaming keeps the state; of one pipeline alone.",
                required=True,
            ),
            "lateness": Key(
                Text("a duration such as 10m", parse_duration, r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"),
                "`source` has a watermark on `event_time`, this much behind the newest record.",
                "none: the transform sets it",
            ),
        }
    ),
    legal=f"{_CHECKPOINT}, or a mapping with checkpoint and lateness",
)

PIPELINE = Record(
    {
        "source": Key(SOURCE, "What is read.", needed=True),
        "format": Key(
            FORMAT,
            "How records are decoded: json, csv, avro, protobuf, raw, debezium or, of files, parquet; or a "
            "mapping, for settings.",
            "json; of postgres debezium",
        ),
        "registry": Key(REGISTRY, "The schema registry of avro and protobuf, with Confluent's API.", "none"),
        "schema": Key(
            MapOf(_COLUMN, "column", _column_problem, about=f"Of this column: {_TYPE}."),
            "The columns of a record, by name.",
            "those of the registry or the schema file, the sensors, the source's table or the changes; of "
            "raw value: binary; needed for json, csv and parquet",
        ),
        "metadata": Key(METADATA, "What a record has besides its value, as columns of these names.", "none"),
        "transform": Key(
            _TRANSFORM,
            "SQL over the view `source`, or a Python function. With it the pipeline takes the Spark path.",
            "none",
        ),
        "stateful": Key(
            _STATEFUL,
            "The transform keeps state (a window, deduplication, a join of streams): the folder of its "
            "checkpoint. The pipeline runs as Structured Streaming then.",
            "none",
        ),
        "changes": Key(CHANGES, "Of `format: debezium`: how changes of rows become tables.", "upsert"),
        "table": Key(
            Text("namespace.name, such as shop.orders", identifier),
            "The Iceberg table, as namespace.name; a dot inside a name is written '\\.'. It is created "
            "if it is not there. With columns in braces, as in shop.{kind}, or with {topic}: one table for "
            "each value; of changes, {schema} and {table} are parts of the topic's name.",
        ),
        "dataset": Key(_DATASET, "Instead of a table: a generic table, which gets one file for each commit."),
        "partitioning": Key(
            ListOf(
                Text(
                    "day(column), bucket(16, column) or the like", lambda text: parse_partitioning([text])[0]
                ),
                alone=True,
                rejoin=True,
            ),
            "How a new table is partitioned: a column, year(c), month(c), day(c), hour(c), bucket(n, c), "
            "truncate(n, c).",
            "not at all",
        ),
        "event_time": Key(
            Text("the name of a timestamp column"),
            "The column that says when a thing happened; the watermark follows it.",
            "none",
        ),
        "freshness": Key(
            Text("a duration such as 30s", values.freshness, r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"),
            "Seconds, minutes or hours between commits.",
            "30s",
        ),
        "files": Key(_FILES, "How data files are made."),
        "properties": Key(
            MapOf(Setting(), "table property", _property_problem, ("format-version",)),
            "Table properties of a new table.",
        ),
        "format_version": Key(Count(words=(2, 3)), "The version of Iceberg's format of a new table.", "2"),
        "limits": Key(_LIMITS, "What one round may take."),
        "dead_letters": Key(
            _DEAD_LETTERS,
            "The table for records that cannot become rows, made with the first of them; or `stop`: the "
            "pipeline stops at such a record.",
            "the name of the table and _dead_letters; none of changes, which stop their table, and of "
            "datasets",
        ),
        "contract": Key(
            _CONTRACT,
            "How the table follows records that do not fit it; one word alone is for columns and types.",
        ),
        "maintenance": Key(_MAINTENANCE, "What is done for the table between commits; or off."),
    },
    one_of=("table", "dataset"),
)

CATALOG = Record(
    {
        "uri": Key(
            Text("the address of a server, such as http://localhost:8181", server_uri),
            "The server.",
            "LAKEKEEPER or FRAZIL_URI of the environment, else http://localhost:8181",
        ),
        "warehouse": Key(
            Text("the name of a warehouse"),
            "Warehouse, by name or id.",
            "FRAZIL_WAREHOUSE of the environment, else the server's default",
        ),
        "token": Key(
            Text("a token, best as ${CATALOG_TOKEN}"),
            "A token of the caller.",
            "TOKEN or OAUTH_CLIENT_ID and its like of the environment",
        ),
        "name": Key(
            Text("a name of letters, digits and _", values.catalog_name, r"^[A-Za-z_][A-Za-z0-9_]*$"),
            "What the catalog is called in SQL transforms.",
            "lake",
        ),
    }
)
SPARK = Record(
    {
        "master": Key(Text("a master, such as local[*]"), "Where Spark runs.", "local[*]"),
        "settings": Key(MapOf(Setting(), "Spark setting", _spark_problem), "Settings of the session."),
    }
)
DEFAULTS = PIPELINE.without_needs()
FILE = Record(
    {
        "catalog": Key(CATALOG, "Where the tables are."),
        "kafka": Key(
            KAFKA, "Client settings of librdkafka, shared by all sources; `bootstrap.servers` among them."
        ),
        "spark": Key(SPARK, "The Spark session that all pipelines of this file share."),
        "pipelines": Key(
            MapOf(DEFAULTS, "pipeline", pipeline_problem), "The pipelines, by name.", required=True
        ),
        "defaults": Key(
            DEFAULTS, "The same keys as a pipeline: what a pipeline does not say is taken from here."
        ),
    }
)


def json_schema() -> JsonSchema:
    """For editors: what `FILE` says, as JSON schema of draft 2020-12."""
    body = FILE.schema()
    body["properties"]["pipelines"] |= {
        "minProperties": 1,
        "propertyNames": {"pattern": "^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"},
        "additionalProperties": {"$ref": "#/$defs/pipeline"},
    }
    body["properties"]["defaults"] = {
        "description": body["properties"]["defaults"]["description"],
        "$ref": "#/$defs/pipeline",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "frazil pipelines",
        **body,
        "if": {"not": {"required": ["defaults"]}},
        "then": {"properties": {"pipelines": {"additionalProperties": PIPELINE.completeness()}}},
        "$defs": {"pipeline": DEFAULTS.schema()},
    }
