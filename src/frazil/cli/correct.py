"""`frazil correct`: a range of a table computed again on a branch, shown, published or dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.clusters import At, at_cluster
from frazil.cli.remote import confirm, print_table, yes_option

if TYPE_CHECKING:
    from frazil.hot.correct import CorrectionInfo
    from frazil.hot.correct.api import Corrected
    from frazil.hot.correct.difference import Difference
    from frazil.stream.config import Pipelines

_MAKE = "range"


class _OrTable(click.Group):
    """A table may stand where a subcommand does: tables have a dot in their names, subcommands have none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_MAKE, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in super().list_commands(ctx) if name != _MAKE]


class _AtTable(click.Context):
    """The subcommand's own name is never written: the table stands in its place."""

    @property
    def command_path(self) -> str:
        assert self.parent is not None, "it is called by the group"
        return f"{self.parent.command_path} TABLE"


class _Make(click.Command):
    context_class = _AtTable

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [piece for piece in super().collect_usage_pieces(ctx) if piece != "TABLE"]


@click.group(cls=_OrTable, subcommand_metavar="TABLE [OPTIONS] | COMMAND")
def correct() -> None:
    """Compute a range of a table again on a branch, and publish it.

    Any reader can look at the branch, and the stream goes on meanwhile. `frazil correct TABLE --help` shows
    the options.

    \b
    frazil correct shop.orders --where "day = DATE '2026-01-01'" --sql fixed.sql
    frazil correct publish shop.orders 1a2b3c4d
    """


@correct.command(_MAKE, cls=_Make)
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="The range: rows of the table to replace.")
@click.option("--sql", metavar="FILE|QUERY", help="What they should be: a query of Spark's SQL, or a file.")
@click.option("--fresh", is_flag=True, help="Read other hot tables with what is only in their logs.")
@click.option(
    "--offsets",
    multiple=True,
    metavar="RANGE",
    help="Instead: a range of the log (orders=0:5-9,1:0-3) whose rows the pipeline makes again.",
)
@click.option(
    "--pipelines",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The file of the pipeline that reads the log; hot tables need none.",
)
@click.option("--pipeline", "pipeline_name", metavar="NAME", help="Its name, if the file has several.")
@click.option("--publish", "at_once", is_flag=True, help="Publish it at once.")
@at_cluster
def make(
    at: At,
    table: str,
    where: str | None,
    sql: str | None,
    fresh: bool,
    offsets: tuple[str, ...],
    file: Path | None,
    pipeline_name: str | None,
    at_once: bool,
) -> None:
    """Replace the rows of a range, on a branch, and show what that changes.

    Tables in the query are written as namespace, dot, name. All rows that it gives must be in the range.

    \b
    frazil correct shop.orders --where "day = DATE '2026-01-01'" \\
        --sql "SELECT order_id, day, amount * 2 AS amount FROM shop.orders WHERE day = DATE '2026-01-01'"
    frazil correct shop.clicks --offsets clicks=0:1200-1600 --pipelines pipelines.yaml
    """
    from frazil.hot.correct import correct as made_of
    from frazil.hot.correct.offsets import parse_ranges

    # All that can be said without Spark is said before it starts.
    if {where is None, sql is None} != {bool(offsets)} or (file is not None and not offsets):
        raise click.UsageError(
            "Say which range: --where and --sql, or --offsets and, but for hot tables, --pipelines."
        )
    query = _query(sql)
    if offsets:
        parse_ranges(offsets)
    given = _pipeline(file, pipeline_name)
    with at.spark() as spark:
        made = made_of(
            spark,
            table,
            where=where,
            sql=query,
            fresh=fresh,
            offsets=offsets or None,
            pipeline=None if given is None else given.pipelines[0],
            publish=at_once,
            catalog=at.client,
            catalog_name=None if given is None else given.catalog.name,
            kafka=at.cluster.kafka,
            say=_say(at),
        )
    _print(at, made)


@correct.command()
@click.argument("table")
@click.argument("correction", metavar="ID")
@at_cluster
def publish(at: At, table: str, correction: str) -> None:
    """Bring a correction into the table. A second time does nothing."""
    from frazil.hot.correct import publish as bring

    with at.spark() as spark:
        done = bring(spark, table, correction, catalog=at.client, kafka=at.cluster.kafka, say=_say(at))
    _print(at, done)


@correct.command("list")
@click.argument("table")
@at_cluster
def list_(at: At, table: str) -> None:
    """Corrections of a table: on branches, and published. A rebuild is one of all rows."""
    from frazil.hot.correct import corrections

    found = corrections(table, catalog=at.client)
    if at.as_json:
        click.echo(json.dumps([one.document() for one in found], ensure_ascii=False))
        return
    columns = ("id", "state", "made", "range")
    print_table(columns, ([one.id, one.state, f"{one.time:%Y-%m-%d %H:%M:%S}", one.scope] for one in found))


@correct.command()
@click.argument("table")
@click.argument("correction", metavar="ID")
@at_cluster
def show(at: At, table: str, correction: str) -> None:
    """What is known of a correction: its range, its query, its branch."""
    from frazil.hot.correct import find_correction

    found = find_correction(table, correction, catalog=at.client).document()
    if at.as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    width = max(map(len, found))
    for name, value in found.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {value}")


@correct.command()
@click.argument("table")
@click.argument("correction", metavar="ID")
@yes_option
@at_cluster
def drop(at: At, table: str, correction: str, yes: bool) -> None:
    """Take the branch of a correction away; the table stays as it is."""
    from frazil.hot.correct import drop as take_away

    confirm(f"Drop the correction {correction} of {table}?", yes)
    with at.spark() as spark:
        gone = take_away(spark, table, correction, catalog=at.client)
    if at.as_json:
        click.echo(json.dumps(gone.document(), ensure_ascii=False))
    else:
        click.echo(f"dropped correction {gone.id} of {gone.table}", err=True)


def _query(text: str | None) -> str | None:
    """A query, or what is in the file of that name. Most queries are too long for a name."""
    from frazil.core.errors import InvalidInput

    # A single word that ends so is a file that is not there.
    named = text is not None and text.endswith(".sql") and len(text.split()) == 1
    try:
        return Path(text).read_text("utf-8") if text and (named or Path(text).is_file()) else text
    except OSError as error:
        if named:
            raise InvalidInput(f"cannot read {text}: {error.strerror}") from None
        return text
    except UnicodeDecodeError:
        raise InvalidInput(f"{text} is not UTF-8 text") from None


def _pipeline(file: Path | None, name: str | None) -> Pipelines | None:
    """One, with what its file says of the catalog."""
    from frazil.cli.pipelines import load
    from frazil.core.errors import InvalidInput

    if file is None:
        return None
    found = load(file, [name] if name else [])
    if len(found.pipelines) > 1:
        names = ", ".join(one.name for one in found.pipelines)
        raise InvalidInput(f"{file} has several pipelines ({names}): say which by --pipeline")
    return found


def _say(at: At) -> Any:
    return lambda text: None if at.as_json else click.echo(f"# {text}", err=True)


def _print(at: At, made: Corrected) -> None:
    if at.as_json:
        click.echo(json.dumps(made.document(), ensure_ascii=False))
        return
    if made.difference is not None:
        _print_difference(made.difference)
    click.echo(f"# {_told(made, made.correction)}", err=True)


def _told(made: Corrected, of: CorrectionInfo) -> str:
    if made.published == "already":
        return f"correction {of.id} of {of.table} was published before, as snapshot {of.snapshot}"
    if made.published is not None:
        again = ", computed again because rows of the range had changed" if made.recomputed else ""
        return f"correction {of.id} of {of.table} is published, as snapshot {of.snapshot}{again}"
    return (
        f"correction {of.id} of {of.table} is on the branch {of.branch}; publish it by `frazil correct "
        f"publish {of.table} {of.id}`"
    )


def _print_difference(found: Difference) -> None:
    names = ("before", "after", "removed", "added", "changed", "unchanged")
    parts = {"all": found.total, **found.partitions}
    print_table(
        ("rows", *names), ([label, *(getattr(one, name) for name in names)] for label, one in parts.items())
    )
    sums = [
        [
            f"{name} of {label}" if found.partitions else name,
            one.sums_before.get(name),
            one.sums_after.get(name),
        ]
        for label, one in parts.items()
        for name in {**one.sums_before, **one.sums_after}
    ]
    if sums:
        click.echo()
        print_table(("sum", "before", "after"), sums)
