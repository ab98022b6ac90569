"""`frazil changes`: the rows of a table that came, went or were replaced between two snapshots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.remote import Remote, Sheet, json_value, plain, remote

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED = "A snapshot id, a time (2026-01-01T00:00:00Z), or a tag or branch"
_TITLES = {"_change_type": "change", "_commit_snapshot_id": "snapshot"}


@click.command()
@click.argument("name", metavar="TABLE")
@click.option("--since", metavar="MOMENT", help=f"{_NAMED}: changes after it.  [the table's beginning]")
@click.option("--until", metavar="MOMENT", help=f"{_NAMED}: changes up to it.  [now]")
@click.option(
    "--key",
    metavar="COLUMNS",
    help="Columns, with commas between them: a row that replaces another of the same key is an update. "
    "Empty for none.  [the table's identifier fields]",
)
@click.option("--net", is_flag=True, help="Only what is different in the end.")
@remote()
def changes(
    server: Remote, name: str, since: str | None, until: str | None, key: str | None, net: bool
) -> None:
    """Show how a table's rows changed, commit by commit.

    Works on any Iceberg table: with delete files, deletion vectors, rewritten files. With --json each row is
    a line.

    \b
    frazil changes shop.orders --since 2026-01-01T00:00:00Z
    frazil changes shop.orders --since last-report --key order_id --net --json
    """
    from frazil.lake.changelog import read_changes

    columns = None if key is None else [each.strip() for each in key.split(",") if each.strip()]
    count, printer = 0, _Printer()
    for batch in read_changes(server.client, name, since=since, until=until, key=columns, net=net):
        count += len(batch)
        if server.as_json:
            for row in batch.to_pylist(maps_as_pydicts=None):
                click.echo(json.dumps(json_value(row), ensure_ascii=False))
        elif len(batch):
            printer.print(batch)
    if not count and not server.as_json:
        click.echo("no row changed", err=True)


class _Printer:
    """What happened first, then the row. Batches are of one commit: all have one head."""

    def __init__(self) -> None:
        self._sheet = Sheet()
        #: Whether any so far was of a correction.
        self._corrected = False

    def print(self, batch: pa.RecordBatch) -> None:
        self._corrected |= bool(batch.column("_correction").drop_null())
        hidden = {"_change_ordinal", "_commit_timestamp", *(() if self._corrected else ("_correction",))}
        first = [name for name in batch.schema.names if name in _TITLES]
        names = [*first, *(name for name in batch.schema.names if name not in {*first, *hidden})]
        rows = ([plain(_shown(row[name])) for name in names] for row in batch.select(names).to_pylist())
        self._sheet.print([_TITLES.get(name, name) for name in names], rows)


def _shown(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(json_value(value), ensure_ascii=False)
    return json_value(value) if isinstance(value, bytes) else value
