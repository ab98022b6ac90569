"""The decoder of a format."""

from __future__ import annotations

from frazil.core.schema import Schema
from frazil.stream.config.model import (
    AvroFormat,
    Contract,
    CsvFormat,
    Format,
    JsonFormat,
    ParquetFormat,
    ProtobufFormat,
    RawFormat,
)
from frazil.stream.decode.decoded import Decoder


def decoder_of(format: Format, schema: Schema, contract: Contract) -> Decoder:  # noqa: A002 - the settings' word
    """Imported where it is used: a task loads the one that it needs."""
    match format:
        case JsonFormat():
            from frazil.stream.decode.json import JsonDecoder

            return JsonDecoder(schema, format, contract)
        case CsvFormat():
            from frazil.stream.decode.csv import CsvDecoder

            return CsvDecoder(schema, format, contract)
        case AvroFormat():
            from frazil.stream.decode.avro import AvroDecoder

            return AvroDecoder(schema, format, contract)
        case ProtobufFormat():
            from frazil.stream.decode.protobuf import ProtobufDecoder

            return ProtobufDecoder(schema, format, contract)
        case RawFormat():
            from frazil.stream.decode.raw import RawDecoder

            return RawDecoder(schema, format, contract)
        case ParquetFormat():
            from frazil.stream.decode.rows import RowsDecoder

            return RowsDecoder(schema, format, contract)
