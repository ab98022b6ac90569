"""The decoder of a format."""

from __future__ import annotations

from frazil.core.schema import Schema
from frazil.stream.config.model import (
    AvroFormat,
    Contract,
    CsvFormat,
    DebeziumFormat,
    Format,
    JsonFormat,
    ParquetFormat,
    ProtobufFormat,
    RawFormat,
)
from frazil.stream.decode.decoded import Decoder


def decoder_of(
    format_: Format, schema: Schema, contract: Contract, reserved: tuple[str, ...] = ()
) -> Decoder:
    """Imported where it is used: a task loads the one that it needs.

    `reserved`: columns of the table that are not of records, which no new field may be called.
    """
    match format_:
        case JsonFormat():
            from frazil.stream.decode.json import JsonDecoder

            return JsonDecoder(schema, format_, contract, reserved)
        case CsvFormat():
            from frazil.stream.decode.csv import CsvDecoder

            return CsvDecoder(schema, format_, contract, reserved)
        case AvroFormat():
            from frazil.stream.decode.avro import AvroDecoder

            return AvroDecoder(schema, format_, contract, reserved)
        case ProtobufFormat():
            from frazil.stream.decode.protobuf import ProtobufDecoder

            return ProtobufDecoder(schema, format_, contract, reserved)
        case RawFormat():
            from frazil.stream.decode.raw import RawDecoder

            return RawDecoder(schema, format_, contract)
        case ParquetFormat():
            from frazil.stream.decode.rows import RowsDecoder

            return RowsDecoder(schema, format_, contract, reserved)
        case DebeziumFormat():
            raise AssertionError("changes have a loop of their own")
