"""`frazil generic`: tables that are not Iceberg's."""

from __future__ import annotations

import json

import click

from frazil.cli.remote import Remote, confirm, property_option, remote, yes_option


@click.group()
def generic() -> None:
    """Generic tables: files of any format.

    The catalog knows their name, their format and their place, and vends keys that reach no others.

    A table is written as namespace, dot, name. A backslash before a dot keeps it a part of a name.

    \b
    frazil generic create sensors.raw --format csv
    frazil generic list sensors
    frazil credentials get sensors.raw --format env
    """


@generic.command("list")
@click.argument("namespace")
@remote()
def list_tables(server: Remote, namespace: str) -> None:
    """List the generic tables of a namespace."""
    from frazil.client.naming import written

    server.show(
        list(server.client.generic_tables.list(namespace)),
        {
            "name": lambda item: written(*item.namespace, item.name),
            "format": lambda item: item.format,
            "id": lambda item: item.id,
        },
    )


@generic.command()
@click.argument("name")
@remote()
def show(server: Remote, name: str) -> None:
    """Show a generic table."""
    from frazil.client.naming import identifier

    found = server.client.generic_tables.load(*identifier(name))
    info = found.table
    fields: dict[str, object] = {
        "table": name,
        "format": info.format,
        "location": info.base_location,
        "protected": info.protected,
        "doc": info.doc,
    }
    fields |= {f"  {key}": value for key, value in (info.properties or {}).items()}
    for key, document in (("schema", info.schema), ("statistics", info.statistics)):
        if document is not None:
            fields[key] = json.dumps(document, indent=2)
    server.describe(info, fields)


@generic.command()
@click.argument("name")
@click.option("--format", "kind", required=True, help="dataset, lance, delta, csv, ...")
@click.option("--location", metavar="URL", help="Inside the warehouse; without it, the server chooses.")
@click.option("--doc", help="What the table is for.")
@property_option
@click.option("--new", is_flag=True, help="Fail if it exists, also if the format is the same.")
@remote()
def create(
    server: Remote,
    name: str,
    kind: str,
    location: str | None,
    doc: str | None,
    properties: dict[str, str],
    new: bool,
) -> None:
    """Create a generic table. One that exists with the same format is fine."""
    from frazil.client.naming import identifier

    made = server.client.generic_tables.create(
        *identifier(name),
        kind,
        base_location=location,
        doc=doc,
        properties=properties or None,
        exist_ok=not new,
    )
    server.say(f"generic table {name} ({made.format}) is at {made.location}", made.table)


@generic.command()
@click.argument("name")
@click.argument("new_name")
@remote()
def rename(server: Remote, name: str, new_name: str) -> None:
    """Give a generic table another name or namespace; its files stay where they are."""
    from frazil.client.naming import identifier

    server.client.generic_tables.rename(*identifier(name), *identifier(new_name))
    server.say(f"renamed generic table {name} to {new_name}")


@generic.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Delete its files too.")
@click.option("--force", is_flag=True, help="Also if it is protected.")
@yes_option
@remote()
def drop(server: Remote, name: str, purge: bool, force: bool, yes: bool) -> None:
    """Drop a generic table. Its files stay, unless --purge is said."""
    from frazil.client.naming import identifier

    what = f"the generic table {name} and delete its files" if purge else f"the generic table {name}"
    confirm(f"Drop {what}?", yes)
    server.client.generic_tables.drop(*identifier(name), purge=purge, force=force)
    server.say(f"dropped generic table {name}{', its files are being deleted' if purge else ''}")
