"""What somebody asks a pipeline for: a message in the log of its database.

It is a transaction like any other. One that runs meets it among the changes, in its place; one that does not
run finds it behind its slot. Whoever may connect to the database may ask, and what is asked for changes no
row.
"""

from __future__ import annotations

import base64
import binascii
import logging

import msgspec

from frazil.core.errors import NotFound
from frazil.stream.postgres.database import Database, SourceTable
from frazil.stream.postgres.log import place
from frazil.stream.postgres.source import PostgresSource

_logger = logging.getLogger(__name__)
#: Of messages that ask for the rows of a table.
REQUEST_PREFIX = "frazil.snapshot"
#: Debezium writes contents as it writes columns of bytes, and in base64 unless it is told otherwise.
_CODES = {"hex": bytes.fromhex, "base64-url-safe": base64.urlsafe_b64decode}


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read all rows of a table again."""

    #: Whom it is for: no two pipelines have the same one.
    slot: str
    schema: str
    table: str


class _Message(msgspec.Struct, frozen=True):
    prefix: str
    content: str


class _Envelope(msgspec.Struct, frozen=True):
    message: _Message


def ask(database: Database, source: PostgresSource, table: SourceTable) -> None:
    """Leave the request where the pipeline finds it; NotFound: it has not begun to look."""
    if database.slot() is None:
        raise NotFound(
            f"there is no slot {source.slot} at {source.where}: pipeline '{source.name}' has not run yet, or "
            "its slot was dropped. Its first run reads all rows by itself, unless `snapshot` is never"
        )
    request = Request(slot=source.slot, schema=table.schema, table=table.name)
    database.emit(REQUEST_PREFIX, msgspec.json.encode(request).decode())


def asked(source: PostgresSource, value: bytes) -> tuple[Request, int, int] | None:
    """What a message asks of this pipeline, the commit before it and where it stands; None: nothing."""
    try:
        message = msgspec.json.decode(value, type=_Envelope).message
        if message.prefix != REQUEST_PREFIX:
            return None
        decode = _CODES.get(source.properties.get("binary.handling.mode", ""), base64.b64decode)
        request = msgspec.json.decode(decode(message.content), type=Request)
    except (msgspec.MsgspecError, UnicodeError, binascii.Error, ValueError) as error:
        _logger.warning("pipeline %s: a request that cannot be read is left out: %s", source.name, error)
        return None
    if request.slot != source.slot:
        return None
    return request, *place(value)
