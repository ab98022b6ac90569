"""`frazil put`: rows into a hot table, from a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from frazil.cli.clusters import At, at_cluster
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from frazil.hot.write.put import Writer

_READ = 4 * 1024 * 1024
_SHOWN_SECONDS = 0.5


@click.command(short_help="Put rows into a hot table, or delete them.")
@click.argument("table")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--delete", is_flag=True, help="FILE has keys: delete the rows that have them.")
@at_cluster
def put(at: At, table: str, file: str, delete: bool) -> None:
    """Put the rows of FILE into the hot TABLE (namespace.name).

    FILE has a JSON object in each line (- is standard input, whose rows are put as they come), or is a .csv
    with a header, or a .parquet. A row replaces the one that has its key. A row that does not fit stops it;
    rows of the part before are in the table then, and putting a file again is harmless if there is a key.

    \b
    echo '{"order_id": 1, "status": "new"}' | frazil put shop.orders -
    echo '{"order_id": 1}' | frazil put shop.orders - --delete
    """
    from frazil.client.naming import identifier
    from frazil.hot.find import load_hot_table
    from frazil.hot.write.put import Writer

    found = load_hot_table(at.client, *identifier(table))
    count = 0
    progress = _Progress(delete)
    with Writer(found, at.cluster.kafka) as writer:
        try:
            for rows in _parts(file, writer, delete):
                count += rows
                progress.show(count)
        except InvalidInput as error:
            # Of rows that were not delivered, the error itself says how many there are.
            if count:
                error.message += f". {count} {'keys' if delete else 'rows'} before that were sent"
            raise
        finally:
            progress.end()
    done = "deleted" if delete else "rows"
    sentence = f"deleted {count} keys from {found}" if delete else f"put {count} rows into {found}"
    at.say(sentence, {"table": str(found), "topic": found.topic, done: count})


def _parts(file: str, writer: Writer, delete: bool) -> Iterator[int]:
    """Rows of each part, once they are sent."""
    ending = Path(file).suffix.lower()
    try:
        if ending in (".parquet", ".csv"):
            first, send = 0, writer.delete if delete else writer.put
            for batch in (_parquet if ending == ".parquet" else _csv)(file, writer):
                yield send(batch, first)
                first += len(batch)
            return
        with click.open_file(file, "rb") as opened:
            yield from _lines(opened, writer.delete_lines if delete else writer.put_lines)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}") from None


def _lines(opened: IO[Any], send: Callable[[list[bytes], int], int]) -> Iterator[int]:
    first, rest = 0, b""
    # What a pipe has now, not what it will have: rows do not wait for others.
    read = getattr(opened, "read1", opened.read)
    while data := read(_READ):
        *lines, rest = (rest + data).split(b"\n")
        yield from _sent(lines, first, send)
        first += len(lines)
    yield from _sent([rest], first, send)


def _sent(lines: list[bytes], first: int, send: Callable[[list[bytes], int], int]) -> Iterator[int]:
    """Rows of each part. Empty lines are nothing, but count, and part what is sent at once."""
    start = 0
    for number, line in enumerate([*lines, b""]):
        if not line.strip():
            if number > start:
                yield send(lines[start:number], first + start)
            start = number + 1


def _parquet(file: str, _: Writer) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(50_000)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"cannot read {file}: {error}") from None


def _csv(file: str, writer: Writer) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    kinds = {one.name: one.type for one in writer.table.schema.to_arrow() if not pa.types.is_nested(one.type)}
    # Threads would not know the number of a row that is wrong.
    reading = csv.ReadOptions(use_threads=False, block_size=_READ)
    # Else a block could end inside of a quoted value.
    parsing, converting = csv.ParseOptions(newlines_in_values=True), csv.ConvertOptions(column_types=kinds)
    try:
        with csv.open_csv(file, reading, parsing, converting) as opened:
            yield from opened
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"cannot read {file}: {error}") from None


class _Progress:
    """One line on a terminal, for input that takes its time."""

    def __init__(self, delete: bool) -> None:
        self._what = "keys deleted" if delete else "rows put"
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _SHOWN_SECONDS
        self._shown = False

    def show(self, count: int) -> None:
        if self._terminal and time.monotonic() >= self._next:
            click.echo(f"\r{count:,} {self._what}…", err=True, nl=False)
            self._next = time.monotonic() + _SHOWN_SECONDS
            self._shown = True

    def end(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False
