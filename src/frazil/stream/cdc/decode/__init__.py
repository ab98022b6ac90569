"""Decoders of change events: Debezium's messages into changes of rows."""

from frazil.stream.cdc.decode.decoder import change_decoder

__all__ = ["change_decoder"]
