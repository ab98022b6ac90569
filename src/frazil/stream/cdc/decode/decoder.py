"""The decoder of a topic's change events."""

from __future__ import annotations

from frazil.core.schema import Schema
from frazil.stream.cdc.changes import ChangeDecoder
from frazil.stream.cdc.decode.avro import AvroChanges
from frazil.stream.cdc.decode.json import JsonChanges
from frazil.stream.cdc.decode.plain import PlainChanges
from frazil.stream.config.model import DebeziumFormat, JsonFormat


def change_decoder(
    format: DebeziumFormat | JsonFormat,  # noqa: A002 - the settings' own word
    schema: Schema | None,
    key: tuple[str, ...] = (),
    *,
    transactions: bool = False,
    several: bool = False,
) -> ChangeDecoder:
    """For the messages of one table.

    `schema`: the table's columns; None: there is no table, and what is decoded is only what it would be like.
    `key`: the columns that tell rows apart; none: as the messages' keys say, and of plain rows: none does.
    `several`: the topic has so many partitions, and only the records' keys bring plain rows to one of them.
    """
    if isinstance(format, JsonFormat):
        assert schema is not None, "the columns of plain rows are declared"
        return PlainChanges(format, schema, key, several=several)
    kind = AvroChanges if format.encoding == "avro" else JsonChanges
    return kind(format, schema, key, transactions=transactions)
