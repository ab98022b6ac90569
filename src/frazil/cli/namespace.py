"""`frazil namespace`: groups of tables."""

from __future__ import annotations

import json

import click

from frazil.cli.remote import Remote, confirm, property_option, remote, yes_option


@click.group()
def namespace() -> None:
    """Namespaces: groups of tables, nested as you like.

    The levels of a namespace are written with dots between them. A backslash before a dot keeps it a part of
    the name: 'sales\\.eu' is one level.

    \b
    frazil namespace list
    frazil namespace create sales -p owner=ann
    frazil namespace create sales.eu.north --parents
    """


@namespace.command("list")
@click.argument("parent", required=False)
@remote()
def list_namespaces(server: Remote, parent: str | None) -> None:
    """List the namespaces directly below PARENT, or the top ones."""
    from frazil.client.naming import written

    server.show(list(server.client.namespaces.list(parent)), {"namespace": lambda levels: written(*levels)})


@namespace.command()
@click.argument("name")
@property_option
@click.option("--parents", is_flag=True, help="Create what is missing above it, too.")
@remote()
def create(server: Remote, name: str, properties: dict[str, str], parents: bool) -> None:
    """Create a namespace; the parent of a nested one must exist."""
    made = server.client.namespaces.create(name, properties, parents=parents)
    server.say(f"created namespace {name}", made)


@namespace.command()
@click.argument("name")
@remote()
def show(server: Remote, name: str) -> None:
    """Show a namespace and its properties."""
    found = server.client.namespaces.get(name)
    server.describe(found, {"namespace": name, **_listed(found.properties or {})})


@namespace.command("set")
@click.argument("name")
@property_option
@click.option("-r", "--remove", "removals", multiple=True, metavar="KEY", help="Repeat for more.")
@remote()
def set_properties(server: Remote, name: str, properties: dict[str, str], removals: tuple[str, ...]) -> None:
    """Set and remove properties of a namespace."""
    if not properties and not removals:
        raise click.UsageError("nothing to do: give --property key=value or --remove key")
    changed = server.client.namespaces.update_properties(name, properties, removals)
    missing = f"; not there: {', '.join(changed.missing)}" if changed.missing else ""
    server.say(f"set {len(changed.updated)}, removed {len(changed.removed)}{missing}", changed)


@namespace.command()
@click.argument("name")
@yes_option
@remote()
def drop(server: Remote, name: str, yes: bool) -> None:
    """Drop a namespace that is empty."""
    confirm(f"Drop the namespace {name}?", yes)
    server.client.namespaces.drop(name)
    server.say(f"dropped namespace {name}")


def _listed(properties: dict[str, str]) -> dict[str, object]:
    return {f"  {key}": json.dumps(value) if "\n" in value else value for key, value in properties.items()}
