"""Decoders of change events: Debezium's messages into changes of rows."""
