"""`frazil changes`: the rows of a table that came, went or were replaced between two snapshots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.remote import Remote, plain, print_table, remote

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED = "A snapshot id, a time (2026-01-01T00:00:00Z), or a tag or branch"


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
    count = 0
    for batch in read_changes(server.client, name, since=since, until=until, key=columns, net=net):
        count += len(batch)
        if server.as_json:
            for row in batch.to_pylist(maps_as_pydicts=None):
                click.echo(json.dumps(row, default=_text, ensure_ascii=False))
        elif len(batch):
            _print(batch)
    if not count and not server.as_json:
        click.echo("no row changed", err=True)


def _print(batch: pa.RecordBatch) -> None:
    """What happened first, then the row."""
    shown = batch.drop_columns(
        [name for name in ("_change_ordinal", "_commit_timestamp") if name in batch.schema.names]
    )
    if not batch.column(batch.schema.names.index("_correction")).drop_null():
        shown = shown.drop_columns(["_correction"])
    first = [name for name in shown.schema.names if name in ("_change_type", "_commit_snapshot_id")]
    names = [*first, *(name for name in shown.schema.names if name not in first)]
    rows = ([plain(_shown(row[name])) for name in names] for row in shown.to_pylist())
    titles = [{"_change_type": "change", "_commit_snapshot_id": "snapshot"}.get(name, name) for name in names]
    print_table(titles, rows)


def _shown(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=_text, ensure_ascii=False)
    return _text(value) if isinstance(value, bytes) else value


def _text(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
