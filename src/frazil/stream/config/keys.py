"""Every key of `pipelines.yaml`. The loader, the published schema and the documents are made of this."""

from __future__ import annotations

import re

from frazil.client.address import server_uri
from frazil.client.naming import identifier
from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import parse_partitioning
from frazil.core.stamp import check_pipeline_name
from frazil.stream.config import kafka_settings, values
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


KAFKA = MapOf(
    Setting(),
    "Kafka setting",
    kafka_settings.refuse,
    kafka_settings.REFUSED,
    "A client setting of librdkafka.",
)
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

_SOURCE = Record(
    {
        "topics": Key(
            ListOf(Text("the name of a topic", values.topic, r"^[A-Za-z0-9._-]{1,249}$"), alone=True),
            "The topics to read: a name, or a list of names.",
        ),
        "pattern": Key(
            Text("a regular expression", values.pattern),
            "Instead of topics: a regular expression for whole names. New topics that match are read, too.",
        ),
        "start": Key(
            Either(
                Text("earliest, latest, or a time such as 2026-01-01T00:00:00Z", values.start),
                table=MapOf(
                    ListOf(Count(least=0)), "offset of topic", about="The first offset of each partition."
                ),
                legal="earliest, latest, a time, or offsets by topic such as {orders: [0, 10]}",
            ),
            "Where a pipeline that never ran begins: earliest, latest, a time (UTC unless it names a zone), "
            "or offsets by topic, one for each partition.",
            "earliest",
        ),
        "settings": Key(KAFKA, "Client settings of librdkafka for this source, on top of the shared ones."),
    },
    one_of=("topics", "pattern"),
)

_FORMAT = Either(
    Text("json, or a mapping such as {json: {timestamps: ms}}", words=("json",)),
    table=Record(
        {
            "json": Key(
                Record(
                    {
                        "timestamps": Key(
                            Text("iso, s, ms or us", words=("iso", "s", "ms", "us")),
                            "How times are written: ISO 8601, or a number of seconds, milliseconds or "
                            "microseconds since 1970.",
                            "iso",
                        )
                    }
                ),
                "One JSON object in each record.",
                required=True,
            )
        }
    ),
    legal="json, or a mapping such as {json: {timestamps: ms}}",
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

_FILES = Record(
    {
        "size": Key(
            Text("a size such as 128mb", values.size, r"^\d+(\.\d+)?\s*[kKmMgG]i?[bB]$"),
            "When a file reaches this size, the next one is begun.",
            "128mb",
        ),
        "compression": Key(
            Text(", ".join(COMPRESSIONS), words=COMPRESSIONS), "How Parquet compresses its pages.", "zstd"
        ),
        "compression_level": Key(Count(), "For zstd 1 to 22, for gzip 1 to 9.", "the library's own"),
    }
)

_LIMITS = Record(
    {
        "records_per_round": Key(Count(), "At most this many records are committed at once.", "4000000"),
        "records_per_task": Key(
            Count(), "A task gets at least this many, so that small rounds make few files.", "100000"
        ),
    }
)

PIPELINE = Record(
    {
        "source": Key(_SOURCE, "What is read.", needed=True),
        "format": Key(_FORMAT, "How records are decoded.", "json"),
        "schema": Key(
            MapOf(_COLUMN, "column", _column_problem, about=f"Of this column: {_TYPE}."),
            "The columns of a record, by name.",
            needed=True,
        ),
        "transform": Key(
            _TRANSFORM,
            "SQL over the view `source`, or a Python function. With it the pipeline takes the Spark path.",
            "none",
        ),
        "table": Key(
            Text("namespace.name, such as shop.orders", identifier),
            "The Iceberg table, as namespace.name; a dot inside a name is written '\\.'. It is created "
            "if it is not there.",
            needed=True,
        ),
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
    }
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
