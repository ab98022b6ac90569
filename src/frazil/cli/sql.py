"""`frazil sql`: a query over tables of the catalog, those that are hot with what is only in their logs."""

from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.clusters import At, at_cluster
from frazil.cli.remote import json_value, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from frazil.hot.read.pins import Pins


@click.command()
@click.argument("query")
@click.option("--fresh", is_flag=True, help="Read the logs as well: the answer is as of now.")
@click.option(
    "--max-lag",
    metavar="TIME",
    help="How old the answer may be (5s). With --fresh, the log of a table is left out where Iceberg is no "
    "further behind; without, a table that is further behind is refused.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="Who answers. DuckDB works in this process, and reads into its memory.",
)
@click.option(
    "--pins",
    metavar="JSON",
    help="As an earlier call printed them: the same answer again. Not with --fresh or --max-lag.",
)
@at_cluster
def sql(at: At, query: str, fresh: bool, max_lag: str | None, engine: str, pins: str | None) -> None:
    """Answer a QUERY over tables, written as namespace, dot, name.

    Without --fresh hot tables are read as Iceberg has them. Which snapshots and which part of the logs the
    answer is of is printed beside it; given to --pins, that gives the same answer for as long as both are
    kept.

    \b
    frazil sql "SELECT status, sum(amount) FROM shop.orders GROUP BY status" --fresh
    frazil sql "SELECT * FROM shop.orders LIMIT 5" --max-lag 30s --engine spark
    """
    from frazil.core.durations import parse_duration
    from frazil.hot.read import sql as reading

    if pins is not None and (fresh or max_lag is not None):
        raise click.UsageError("--pins says of when the answer is: leave out --fresh and --max-lag.")
    bound = None if max_lag is None else parse_duration(max_lag)
    with nullcontext() if engine == "duckdb" else at.spark() as spark:
        answer = reading.query(
            query,
            pins=_parsed(pins),
            fresh=fresh,
            max_lag=bound,
            kafka=at.cluster.kafka,
            catalog=at.client,
            spark=spark,
        )
    if at.as_json:
        _print_json(answer.rows, answer.pins)
        return
    print_table(answer.rows.column_names, _rows(answer.rows))
    for each in answer.pins:
        click.echo(f"# {each}", err=True)
    click.echo(f"# --pins '{_text(answer.pins)}'", err=True)


def _parsed(text: str | None) -> list[Pins]:
    """One, or a list of them."""
    from frazil.core.errors import InvalidInput
    from frazil.hot.read.pins import Pins

    if text is None:
        return []
    try:
        found = json.loads(text)
    except ValueError:
        raise InvalidInput(f"--pins is no JSON: {text[:100]}") from None
    return [Pins.decode(json.dumps(one)) for one in (found if isinstance(found, list) else [found])]


def _text(pins: tuple[Pins, ...]) -> str:
    return f"[{','.join(one.encode() for one in pins)}]"


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """By position: a query may give two columns one name."""
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _print_json(table: pa.Table, pins: tuple[Pins, ...]) -> None:
    names = _distinct(table.column_names)
    found = [json_value(dict(zip(names, row, strict=True))) for row in _rows(table)]
    click.echo(f'{{"rows": {json.dumps(found, ensure_ascii=False)}, "pins": {_text(pins)}}}')


def _distinct(names: Sequence[str]) -> list[str]:
    """The second `id` is `id_1`."""
    found: list[str] = []
    for name in names:
        tried = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
        found.append(next(one for one in tried if one not in found))
    return found
