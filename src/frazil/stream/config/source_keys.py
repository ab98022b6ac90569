"""The keys of a source and of its format."""

from __future__ import annotations

from frazil.client.naming import identifier
from frazil.stream.config import kafka_settings, values
from frazil.stream.config.change_keys import DEBEZIUM, POSTGRES
from frazil.stream.config.shapes import Count, Either, Key, ListOf, MapOf, Record, Setting, Text, Truth

KAFKA = MapOf(
    Setting(),
    "Kafka setting",
    kafka_settings.refuse,
    kafka_settings.REFUSED,
    "A client setting of librdkafka.",
)

_OFFSETS = MapOf(ListOf(Count(least=0)), "offset of topic", about="The first offset of each partition.")
_START = Key(
    Either(
        Text("earliest, latest, or a time such as 2026-01-01T00:00:00Z", values.start),
        table=_OFFSETS,
        legal="earliest, latest, a time, or offsets by topic such as {orders: [0, 10]}",
    ),
    "Where a pipeline that never ran begins: earliest, latest, a time (UTC unless it names a zone), "
    "or, of topics, offsets by topic, one for each partition.",
    "earliest",
)
_TABLE = "namespace.name, such as shop.orders"
_HISTORY = Either(
    Text(_TABLE, identifier),
    table=Record(
        {
            "table": Key(Text(_TABLE, identifier), "An Iceberg table of the same catalog.", required=True),
            "until": Key(
                Text("a time such as 2026-01-01T00:00:00Z", values.moment),
                "Its rows as they were then: at the newest snapshot before it that a pipeline wrote from "
                "these topics, or tiering. The log goes on from there.",
                "the newest such snapshot",
            ),
            "offsets": Key(
                _OFFSETS,
                "Of a table that another tool filled: where the log goes on behind its rows, by topic such "
                "as {orders: [0, 10]}.",
                "those in the stamp of the snapshot",
            ),
            "snapshot": Key(
                Count(), "With offsets: the snapshot whose rows are taken.", "the one that is current"
            ),
        }
    ),
    legal=f"{_TABLE}, or a mapping with table, until, offsets, snapshot",
)
_PLACE = "a folder such as /data/in or s3://bucket/in"
_FILES = Either(
    Text(_PLACE, values.location),
    table=Record(
        {
            "path": Key(Text(_PLACE, values.location), "The folder or prefix.", required=True),
            "pattern": Key(
                Text("a pattern such as **/*.json", values.glob),
                "Which files below it: * and ? stay in one folder, ** crosses them.",
                "**",
            ),
            "overwritten": Key(
                Text("read, skip or stop", words=("read", "skip", "stop")),
                "What becomes of a file that was taken and has new content: it is read again as a whole, "
                "left out, or the pipeline stops.",
                "read",
            ),
            "settings": Key(
                MapOf(Setting(), "setting of the store"),
                "Of the store, as Iceberg names them: s3.endpoint, s3.access-key-id, s3.region …",
                "AWS_ACCESS_KEY_ID and its like of the environment",
            ),
        }
    ),
    legal=f"{_PLACE}, or a mapping with path, pattern, overwritten, settings",
)
_SENSORS = Record(
    {
        "sensors": Key(Count(), "How many there are.", "5"),
        "rate": Key(
            Text("readings a second, such as 10", values.rate), "Readings a second of all together.", "10"
        ),
        "records": Key(Count(), "How many readings there will be in all.", "no end"),
        "seed": Key(Count(least=0), "Other seeds make other readings.", "0"),
    }
)
SOURCE = Record(
    {
        "topics": Key(
            ListOf(Text("the name of a topic", values.topic, r"^[A-Za-z0-9._-]{1,249}$"), alone=True),
            "The Kafka topics to read: a name, or a list of names.",
        ),
        "pattern": Key(
            Text("a regular expression", values.pattern),
            "Instead of topics: a regular expression for whole names. New topics that match are read, too.",
        ),
        "files": Key(_FILES, "Files that arrive in a folder or bucket; each is read once."),
        "sensors": Key(_SENSORS, "Made-up readings of sensors, to try things out."),
        "table": Key(
            Text(_TABLE, identifier),
            "An Iceberg table of the same catalog: what is appended to it.",
        ),
        "changes": Key(
            Truth(),
            "Of a table: every row that comes, goes or is replaced, and not only what is appended. Rows have "
            "the columns _change_type (INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER), _change_ordinal, "
            "_commit_snapshot_id, _commit_timestamp and _correction as well.",
            "false",
        ),
        "postgres": Key(
            POSTGRES, "Tables of a PostgreSQL database, by its own log and with no Kafka: their changes."
        ),
        "start": _START,
        "history": Key(
            _HISTORY,
            "Of topics, instead of a start: a table whose rows a pipeline that never ran takes first. It "
            "goes on with the log at exactly the point where they end.",
            "none",
        ),
        "settings": Key(KAFKA, "Client settings of librdkafka for this source, on top of the shared ones."),
    },
    one_of=("topics", "pattern", "files", "sensors", "table", "postgres"),
)

_TIMESTAMPS = Key(
    Text("iso, s, ms or us", words=("iso", "s", "ms", "us")),
    "How times are written: ISO 8601, or a number of seconds, milliseconds or microseconds since 1970.",
    "iso",
)
_WORDS = ("json", "csv", "avro", "protobuf", "raw", "parquet", "debezium")
_LEGAL = f"{', '.join(_WORDS)}, or a mapping such as {{json: {{timestamps: ms}}}}"
FORMAT = Either(
    Text(_LEGAL, words=_WORDS),
    table=Record(
        {
            "json": Key(Record({"timestamps": _TIMESTAMPS}), "One JSON object in each record."),
            "csv": Key(
                Record(
                    {
                        "delimiter": Key(
                            Text("one character", values.character), "Between the fields.", "a comma"
                        ),
                        "quote": Key(
                            Text("one character", values.character), "Around a field.", "a double quote"
                        ),
                        "header": Key(
                            Truth(), "Of files: whether the first line has the names of the columns.", "false"
                        ),
                        "no_value": Key(
                            Text("text"),
                            "What stands for no value; a field that is empty and not quoted always does.",
                            "nothing else",
                        ),
                        "timestamps": _TIMESTAMPS,
                    }
                ),
                "One line in each record, its fields in the order of the columns.",
            ),
            "avro": Key(
                Record(
                    {
                        "schema_file": Key(
                            Text("a path, beside this file or absolute"),
                            "Where there is no registry: the schema that all records have.",
                        )
                    }
                ),
                "Avro's binary form; with a registry behind Confluent's header.",
            ),
            "protobuf": Key(
                Record(
                    {
                        "descriptor_file": Key(
                            Text("a path, beside this file or absolute"),
                            "Where there is no registry: a FileDescriptorSet (protoc --descriptor_set_out "
                            "--include_imports).",
                        ),
                        "message": Key(
                            Text("the full name of a message, such as shop.Order"),
                            "Where there is no registry: which message a record is.",
                        ),
                    }
                ),
                "A Protobuf message; with a registry behind Confluent's header.",
            ),
            "debezium": Key(DEBEZIUM, "Changes of rows of a database, as Debezium writes them."),
        },
        one_of=("json", "csv", "avro", "protobuf", "debezium"),
    ),
    legal=_LEGAL,
)
_URL = "an address such as http://localhost:8081"
REGISTRY = Either(
    Text(_URL, values.registry_url),
    table=Record(
        {
            "url": Key(Text(_URL, values.registry_url), "The registry.", required=True),
            "username": Key(Text("a name"), "Who asks.", "nobody"),
            "password": Key(Text("a password, best as ${REGISTRY_PASSWORD}"), "The password of that user."),
        }
    ),
    legal=f"{_URL}, or a mapping with url, username, password",
)
_NAMED = "the name of the column"
METADATA = Record(
    {
        "topic": Key(Text(_NAMED), "A column for the topic, or the path of the file."),
        "partition": Key(Text(_NAMED), "A column for the partition."),
        "offset": Key(Text(_NAMED), "A column for the offset, or the line of the file."),
        "timestamp": Key(Text(_NAMED), "A column for the time that Kafka has for the record, or the file's."),
        "key": Key(Text(_NAMED), "A binary column for the key."),
        "headers": Key(Text(_NAMED), "A column for the headers: list<struct<key: string, value: binary>>."),
    }
)
