"""`frazil hot`: tables that are a Kafka topic and an Iceberg table at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.clusters import USUAL, At, at_cluster
from frazil.cli.hot_status import is_hot
from frazil.cli.remote import confirm, print_json, yes_option
from frazil.core.durations import show_duration
from frazil.core.errors import FrazilError, InvalidInput

if TYPE_CHECKING:
    from frazil.hot.create import Created
    from frazil.hot.declared.ddl import Script, Statement
    from frazil.hot.table import HotTable

_YAML = (".yaml", ".yml")


@click.group(short_help="Hot tables: a topic and an Iceberg table that are one.")
def hot() -> None:
    """Hot tables: a Kafka topic and an Iceberg table that are one table.

    Rows are there as soon as they are put, and go to Iceberg within the freshness that the table promises.
    Where Kafka and the catalog are stands in hot.yaml, which may be a server.yaml of Fluss.

    \b
    frazil hot create orders.sql
    frazil hot list
    frazil put shop.orders orders.jsonl
    """


@hot.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default="default",
    show_default=True,
    help="Of tables that name no database.",
)
@click.option("--if-not-exists", is_flag=True, help="A table that is there, and as it is declared, is fine.")
@click.option("--adopt", is_flag=True, help="Take a topic that has records already: they become rows.")
@at_cluster
def create(at: At, file: str, namespace: str, if_not_exists: bool, adopt: bool) -> None:
    """Create the hot tables of FILE, each with its topic.

    FILE has CREATE TABLE statements in Flink's SQL (- is standard input), or is a YAML file with `tables`.
    What died half way can be repeated.
    """
    from frazil.client.naming import levels
    from frazil.hot.create import create as make

    script = _script(file, levels(namespace))
    kafka = at.cluster.require_brokers()
    if at.cluster.ignored:
        click.echo(f"of Fluss's servers, and without effect: {', '.join(at.cluster.ignored)}", err=True)
    if script.ignored:
        click.echo(
            f"without effect, as tables are where the configuration says: {', '.join(script.ignored)}",
            err=True,
        )
    for database in script.databases:
        at.client.namespaces.create([database], exist_ok=True)
    made: list[Created] = []
    for statement in script.tables:
        lenient = if_not_exists or statement.if_not_exists
        try:
            made.append(make(statement.table, at.client, kafka, if_not_exists=lenient, adopt=adopt))
        except FrazilError as error:
            raise _placed(error, statement, made) from None
        if not at.as_json:
            click.echo(_told(made[-1]))
    if at.as_json:
        print_json([_document(one.table) | {"created": one.made_table} for one in made])


@hot.command()
@click.argument("name")
@click.option("--topic", is_flag=True, help="Delete its topic, too, with the rows that are nowhere else.")
@click.option("--purge", is_flag=True, help="Delete the files of the Iceberg table, too.")
@yes_option
@at_cluster
def drop(at: At, name: str, topic: bool, purge: bool, yes: bool) -> None:
    """Drop a hot table. Its topic stays, unless --topic is said."""
    from frazil.client.naming import identifier
    from frazil.hot.create import drop as remove

    confirm(f"Drop the hot table {name}{' and its topic' if topic else ''}?", yes)
    done = remove(at.client, at.cluster.kafka, *identifier(name), topic=topic, purge=purge)
    rest = f"and its topic {done.topic}" if done.topic_deleted else f"its topic {done.topic} stays"
    document = {"table": done.table, "topic": done.topic, "topic-deleted": done.topic_deleted}
    at.say(f"dropped hot table {done.table}, {rest}", document)


@hot.command("list")
@at_cluster
def list_tables(at: At) -> None:
    """List the hot tables of the cluster."""
    from frazil.hot.find import HotTables

    found = HotTables(at.client, at.cluster.require_brokers()).look()
    if at.as_json:
        print_json([_document(table) for table in found.tables])
    else:
        at.show(
            found.tables,
            {
                "table": str,
                "key": lambda table: ", ".join(table.key) or None,
                "buckets": lambda table: table.properties.get("bucket.num"),
                "tiering": lambda table: "on" if table.enabled else "off",
                "freshness": lambda table: show_duration(table.freshness),
            },
        )
    for name, problem in found.problems.items():
        click.echo(f"{name} is left out: {problem.message}", err=True)


@hot.command()
@click.argument("name")
@at_cluster
def show(at: At, name: str) -> None:
    """Show a hot table: its columns, its log, how it is tiered."""
    from frazil.client.naming import identifier
    from frazil.core.schema import show_type
    from frazil.hot.find import load_hot_table
    from frazil.hot.topics import Topics

    table = load_hot_table(at.client, *identifier(name))
    topic = Topics(table.settings(at.cluster.kafka)).find(table.topic)
    width = max(len(one.name) for one in table.schema)
    columns = [
        f"{one.name:<{width}}  {show_type(one.type)}{' not null' if one.required else ''}"
        for one in table.schema
    ]
    log = "not there" if topic is None else f"{topic.partitions} partitions, about {topic.records} records"
    if topic is not None and topic.id != table.binding.topic_id:
        log = "another one than the table was made with"
    document = _document(table) | {"records": None if topic is None else topic.records}
    at.describe(
        document,
        {
            "table": str(table),
            "key": ", ".join(table.key) or None,
            "columns": "\n".join(columns),
            "topic": f"{table.topic} at {table.binding.brokers}",
            "log": log,
            "tiering": "on" if table.enabled else "off",
            "freshness": show_duration(table.freshness),
            "kept in log": f"{show_duration(table.keep)} after tiering",
            "compaction": table.compaction,
            "expiry": table.expiry,
            "dead letters": None
            if table.letters is None
            else ".".join((*table.letters[0], table.letters[1])),
        },
    )


def _script(file: str, namespace: tuple[str, ...]) -> Script:
    from frazil.hot.cluster import load_cluster
    from frazil.hot.declared.ddl import Script, Statement, parse_ddl

    if Path(file).suffix.lower() in _YAML:
        _require_one_place(Path(file))
        tables = load_cluster(file).tables
        if not tables:
            raise InvalidInput(f"{file} has no 'tables'")
        return Script(tuple(Statement(table, False, file) for table in tables))
    try:
        with click.open_file(file, encoding="utf-8-sig") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"cannot read {file}: {reason}") from None
    found = parse_ddl(text, "standard input" if file == "-" else file, namespace)
    if not found.tables and not found.databases:
        raise InvalidInput(f"{file} creates no table: write CREATE TABLE name (column type, …)")
    return found


def _require_one_place(file: Path) -> None:
    """What a file of tables says of where they are counts only if it is the configuration as well."""
    used: Path | None = click.get_current_context().params["config_file"]
    used = used or (USUAL if USUAL.is_file() else None)
    if is_hot(file, ("kafka", "catalog")) and (used is None or used.resolve() != file.resolve()):
        told = "" if used is None else f", and not {used}"
        raise InvalidInput(
            f"{file} says where Kafka or the catalog is: give --config {file}, so that this counts{told}; or "
            "take 'kafka', 'catalog' and 'datalake' out of it"
        )


def _placed(error: FrazilError, statement: Statement, made: list[Created]) -> FrazilError:
    before = f" ({len(made)} tables before it were created or there)" if made else ""
    error.message = f"{statement.place}: {error.message}{before}"
    return error


def _told(made: Created) -> str:
    table = made.table
    buckets = int(table.properties["bucket.num"])
    log = f"topic {table.topic}, {buckets} partition{'s' if buckets > 1 else ''}"
    if not made.made_table:
        return f"hot table {table} is there already ({log})"
    return f"created hot table {table} ({log}{'' if made.made_topic else ', which was there'})"


def _document(table: HotTable) -> dict[str, Any]:
    """For scripts."""
    from frazil.core.schema import show_type

    return {
        "namespace": list(table.namespace),
        "name": table.name,
        "columns": [
            {"name": one.name, "type": show_type(one.type), "required": one.required} for one in table.schema
        ],
        "key": list(table.key),
        "topic": table.topic,
        "topic-id": table.binding.topic_id,
        "brokers": table.binding.brokers,
        "buckets": int(table.properties.get("bucket.num", 1)),
        "enabled": table.enabled,
        "freshness-seconds": table.freshness,
        "keep-seconds": table.keep,
        "auto-compaction": table.compaction,
        "auto-expire-snapshot": table.expiry,
        "dead-letters": None if table.letters is None else ".".join((*table.letters[0], table.letters[1])),
    }
