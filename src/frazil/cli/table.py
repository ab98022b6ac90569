"""`frazil table`: Iceberg tables and views."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from frazil.cli.remote import Remote, confirm, print_json, remote, yes_option


@click.group()
def table() -> None:
    """Iceberg tables and views.

    A table is written as namespace, dot, name. A backslash before a dot keeps it a part of a name:
    'sales\\.eu.orders' is the table orders in the namespace "sales.eu".

    \b
    frazil table list sales
    frazil table show sales.orders
    frazil table jobs sales.orders
    frazil table drop sales.orders --purge
    """


@table.command("list")
@click.argument("namespace")
@remote()
def list_tables(server: Remote, namespace: str) -> None:
    """List the tables and views of a namespace."""
    from frazil.client.naming import written

    found: list[dict[str, Any]] = []
    for kind, listed in (("table", server.client.tables), ("view", server.client.views)):
        found += [
            {"namespace": item.namespace, "name": item.name, "kind": kind} for item in listed.list(namespace)
        ]
    server.show(
        found,
        {
            "name": lambda item: written(*item["namespace"], item["name"]),
            "kind": lambda item: item["kind"],
        },
    )


@table.command()
@click.argument("name")
@click.option("--metadata", is_flag=True, help="Print the whole metadata document.")
@remote()
def show(server: Remote, name: str, metadata: bool) -> None:
    """Show a table: where it is, its columns, its newest snapshot."""
    from frazil.client.naming import identifier

    found = server.client.tables.load(*identifier(name))
    if metadata:
        print_json(found.metadata)
        return
    document = found.metadata
    server.describe(
        found,
        {
            "table": name,
            "location": found.location,
            "metadata": found.metadata_location,
            "format": f"Iceberg version {document.get('format-version')}",
            "snapshot": _snapshot(document),
            "columns": "\n".join(_columns(document)),
        },
    )


@table.command()
@click.argument("name")
@remote()
def jobs(server: Remote, name: str) -> None:
    """List the jobs that wrote a table, also those whose snapshots are expired."""
    from frazil.client.naming import identifier

    server.show(
        [*server.client.jobs.of_table(*identifier(name))],
        {
            "kind": lambda job: job.kind,
            "job": lambda job: job.id,
            "commits": lambda job: str(job.commits),
            "first": lambda job: _moment(job.first_timestamp_ms),
            "last": lambda job: _moment(job.last_timestamp_ms),
        },
    )


@table.command()
@click.argument("name")
@click.argument("metadata_location")
@click.option("--overwrite", is_flag=True, help="Replace a table of this name.")
@yes_option
@remote()
def register(server: Remote, name: str, metadata_location: str, overwrite: bool, yes: bool) -> None:
    """Make a table of a metadata file that exists already."""
    from frazil.client.naming import identifier

    if overwrite:
        confirm(f"Replace the table {name}, if there is one?", yes)
    made = server.client.tables.register(*identifier(name), metadata_location, overwrite=overwrite)
    server.say(f"registered table {name} at {made.location}", made)


@table.command()
@click.argument("name")
@click.argument("new_name")
@remote()
def rename(server: Remote, name: str, new_name: str) -> None:
    """Give a table another name or namespace; its files stay where they are."""
    from frazil.client.naming import identifier

    server.client.tables.rename(*identifier(name), *identifier(new_name))
    server.say(f"renamed table {name} to {new_name}")


@table.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Delete its files too.")
@yes_option
@remote()
def drop(server: Remote, name: str, purge: bool, yes: bool) -> None:
    """Drop a table. Its files stay, unless --purge is said."""
    from frazil.client.naming import identifier

    what = f"the table {name} and delete its files" if purge else f"the table {name}"
    confirm(f"Drop {what}?", yes)
    server.client.tables.drop(*identifier(name), purge=purge)
    server.say(f"dropped table {name}{', its files are being deleted' if purge else ''}")


def _snapshot(document: dict[str, Any]) -> str | None:
    current = document.get("current-snapshot-id")
    for snapshot in document.get("snapshots") or ():
        if snapshot.get("snapshot-id") == current:
            operation = (snapshot.get("summary") or {}).get("operation", "unknown")
            return f"{current}, {operation}, {_moment(snapshot.get('timestamp-ms', 0))}"
    return None


def _moment(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        # The clients set it, and a side branch may hold anything.
        return f"{milliseconds} ms"


def _columns(document: dict[str, Any]) -> list[str]:
    current = document.get("current-schema-id")
    schema = next((s for s in document.get("schemas") or () if s.get("schema-id") == current), None)
    fields = (schema or {}).get("fields") or []
    width = max((len(str(field.get("name"))) for field in fields), default=0)
    return [f"{field.get('name')!s:<{width}}  {_type(field)}" for field in fields]


def _type(field: dict[str, Any]) -> str:
    kind = field.get("type")
    text = kind if isinstance(kind, str) else str((kind or {}).get("type"))
    return f"{text} not null" if field.get("required") else text
