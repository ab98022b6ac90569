"""The keys of pipelines whose records are changes of rows."""

from __future__ import annotations

from frazil.stream.config import values
from frazil.stream.config.shapes import Count, Key, ListOf, MapOf, Record, Setting, Text, Truth

DEBEZIUM = Record(
    {
        "encoding": Key(
            Text("json or avro", words=("json", "avro")),
            "What Connect's converter writes: JSON, with or without its schemas, or Avro with a registry.",
            "json",
        ),
        "envelope": Key(
            Text("auto, debezium or flat", words=("auto", "debezium", "flat")),
            "Whether a record is Debezium's envelope, or flat, as ExtractNewRecordState leaves it.",
            "auto: as the records are",
        ),
        "placeholder": Key(
            Text("text"),
            "What stands for a value that did not change and was left out.",
            "__debezium_unavailable_value",
        ),
        "sequence_by": Key(
            Text("the name of a column"),
            "For sources that have no log: the column that orders the changes of a row; one that is older "
            "than the row in the table changes nothing. Deleted rows are remembered only with soft_delete.",
            "none: the log of the database",
        ),
        "decimals": Key(
            Text("precise or string", words=("precise", "string")),
            "Of messages without schemas: the connector's decimal.handling.mode, which they do not tell.",
            "precise",
        ),
        "units": Key(
            MapOf(
                Text("ms, us or ns", words=("ms", "us", "ns")),
                "column",
                about="Milliseconds, microseconds or nanoseconds.",
            ),
            "Of messages without schemas: of columns that are times and come as numbers, the unit, which "
            "they do not tell; under * that of all others.",
            "none: such columns are refused",
        ),
    }
)
POSTGRES = Record(
    {
        "host": Key(Text("a host"), "Where the server is.", "localhost"),
        "port": Key(Count(), "Its port.", "5432"),
        "database": Key(Text("a name"), "The database.", required=True),
        "user": Key(Text("a name"), "A user that may replicate and read the tables.", required=True),
        "password": Key(Text("a password, best as ${PGPASSWORD}"), "The user's password.", required=True),
        "tables": Key(
            ListOf(Text("schema.table, such as public.orders or public.*"), alone=True),
            "The tables to follow: * and ? stand for any characters and any one.",
            required=True,
        ),
        "slot": Key(Text("a name"), "The replication slot.", "frazil_ and the pipeline's name"),
        "publication": Key(Text("a name"), "The publication.", "that of the slot"),
        "snapshot": Key(
            Text("initial or never", words=("initial", "never")),
            "Whether the rows that a table has are read first.",
            "initial",
        ),
        "sslmode": Key(
            Text("disable, prefer, require, verify-ca or verify-full"), "As libpq has it.", "prefer"
        ),
        "sslrootcert": Key(Text("a path"), "Of verify-ca and verify-full: the authorities to trust."),
        "properties": Key(
            MapOf(Setting(), "Debezium property"),
            "More settings of Debezium's connector, such as decimal.handling.mode.",
        ),
    }
)
CHANGES = Record(
    {
        "mode": Key(
            Text("upsert, append or changelog", words=("upsert", "append", "changelog")),
            "upsert: the table has the rows as they are now. append: it has every change as a row. "
            "changelog: both, the changes in a table beside it, named as it is and _changes.",
            "upsert",
        ),
        "key": Key(
            ListOf(Text("the name of a column"), alone=True),
            "The columns that tell rows apart.",
            "the source's own key",
        ),
        "soft_delete": Key(
            Text("the name of a column"),
            "A boolean column that marks rows as deleted, instead of removing them.",
            "rows are removed",
        ),
        "whole_transactions": Key(
            Truth(),
            "Whether all rows of a table that one transaction changed come in one commit; straight from "
            "PostgreSQL, or for JSON envelopes from topics of one partition, whose connector must set "
            "provide.transaction.metadata.",
            "false",
        ),
        "signals": Key(
            Text("the name of a topic", values.topic, r"^[A-Za-z0-9._-]{1,249}$"),
            "The topic whose signals the connector follows (signal.kafka.topic), for `frazil snapshot`.",
            "none",
        ),
        "incarnation": Key(
            Count(least=0),
            "Raised by one after the database was restored or replaced, to say that its log counts anew.",
            "0",
        ),
    }
)
