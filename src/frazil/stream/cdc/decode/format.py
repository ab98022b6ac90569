"""How Debezium's messages are written; nothing is imported that would lead back to the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from frazil.core.schema import Schema
    from frazil.stream.config.model import Registry

Unit: TypeAlias = Literal["ms", "us", "ns"]

#: What Debezium writes in place of a value that did not change and that the database did not send.
PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class DebeziumFormat:
    """Changes of rows as Debezium writes them."""

    encoding: Literal["json", "avro"] = "json"
    registry: Registry | None = None
    #: `flat`: behind Debezium's ExtractNewRecordState; `auto`: as the records are.
    envelope: Literal["auto", "debezium", "flat"] = "auto"
    #: Types of columns, where the records do not tell them or others are wanted.
    columns: Schema | None = None
    #: What stands for a value that did not change and was left out.
    placeholder: str = PLACEHOLDER
    #: A column that orders changes, for sources that have no log.
    sequence_by: str | None = None
    #: The connector's `decimal.handling.mode`; counts only where messages carry no schema.
    decimals: Literal["precise", "string"] = "precise"
    #: Of times that are numbers, by column, `*` for all others; counts only where messages carry no schema.
    units: Mapping[str, Unit] = field(default_factory=dict)
