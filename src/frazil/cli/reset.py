"""`frazil reset`: move a pipeline to other positions of its log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import connect, lane_of, load, require_packages, with_spark
from frazil.cli.remote import confirm, plain, print_json, print_table, yes_option
from frazil.core.errors import InvalidInput, NotFound
from frazil.core.names import show

if TYPE_CHECKING:
    from frazil.core.stamp import Stamp
    from frazil.stream.config import Pipelines
    from frazil.stream.postgres.source import PostgresSource
    from frazil.stream.reset import Move, Reset, Target

_NEWEST = "newest"


@click.command(short_help="Move a pipeline to other positions: read again, or leave out.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("pipeline")
@click.option(
    "--to-offsets",
    multiple=True,
    metavar="POSITION",
    help="earliest, latest, or TOPIC=earliest, or TOPIC=PARTITION:OFFSET,…; may be given for several topics. "
    "What is not named stays where it is.",
)
@click.option(
    "--to-time", metavar="TIME", help="The first record at or after it, such as 2026-01-31T08:00:00Z."
)
@click.option(
    "--to-stamp",
    is_flag=False,
    flag_value=_NEWEST,
    metavar="[SNAPSHOT_ID]",
    help="Where that commit of the pipeline was; without an id its newest one, as after a rollback.",
)
@click.option(
    "--to-history",
    is_flag=True,
    help="The rows of the table that `source.history` names, and then the log behind them.",
)
@click.option(
    "--table",
    help="Of a pipeline of changes: which of its tables, as namespace.name; needed if there are several. "
    "Straight from PostgreSQL, all begin anew without it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@yes_option
def reset(
    file: Path,
    pipeline: str,
    table: str | None,
    to_offsets: tuple[str, ...],
    to_time: str | None,
    to_stamp: str | None,
    to_history: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Move PIPELINE of FILE to other positions of its log; the next run goes on there.

    It first shows what would be read a second time (those rows are then twice in the table) and what would be
    left out. A writer of the pipeline that runs is stopped. The table's rows stay as they are.

    A pipeline that follows PostgreSQL can only begin anew (--to-offsets earliest), whole or by --table, and
    while it does not run: all rows are read again, and replace those that the copy has.

    \b
    frazil reset pipelines.yaml orders --to-offsets earliest
    frazil reset pipelines.yaml orders --to-offsets orders=0:1500,1:1480
    frazil reset pipelines.yaml orders --to-stamp
    """
    require_packages()
    target = _target(to_offsets, to_time, to_stamp, to_history)
    pipelines = load(file, (pipeline,))
    from frazil.lake.authority import MetadataHistory
    from frazil.lake.catalog import Lake
    from frazil.stream import reset as work
    from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog, kafka_source
    from frazil.stream.postgres.source import PostgresSource

    (config,) = pipelines.pipelines
    if isinstance(config.source, PostgresSource):
        _begin_anew(pipelines, config.source, target, table, as_json, yes)
        return
    config = lane_of(config, table)
    log = KafkaLog(kafka_source(config, "reset"), timeout_seconds=COMMAND_SECONDS)
    with connect(pipelines) as client:
        metadata = client.tables.load(*config.home).metadata
        if isinstance(target, work.ToHistory):
            wanted = work.history_of_source(config)
            target = work.ToHistory(client.tables.load(wanted.namespace, wanted.name).metadata)
        planned = work.plan_reset(config, MetadataHistory(metadata), log, target)
        if not as_json:
            _show(planned)
        confirm(f"Move pipeline {pipeline}?", yes)
        stamp = with_spark(pipelines, lambda spark: work.reset(config, Lake(spark, client), target, planned))
    if as_json:
        print_json(_document(planned, stamp))
    else:
        click.echo(f"Moved: epoch {stamp.epoch}. The next run goes on there.")


def _begin_anew(
    pipelines: Pipelines, source: PostgresSource, target: Target, table: str | None, as_json: bool, yes: bool
) -> None:
    """The log of a database has no positions to go to, but it can be left for all rows as they are now."""
    from frazil.lake.catalog import Lake
    from frazil.stream.cdc.naming import lanes
    from frazil.stream.postgres.anew import begin_anew, require_stopped
    from frazil.stream.reset import ToOffsets

    (config,) = pipelines.pipelines
    if target != ToOffsets(everywhere="earliest"):
        raise InvalidInput(
            f"pipeline '{config.name}' follows PostgreSQL, whose log cannot be read from any position: use "
            "--to-offsets earliest, which reads all rows again, or `frazil snapshot`, which does so while it "
            "runs"
        )
    require_stopped(source)
    parts = lanes(config) if table is None else (lane_of(config, table),)
    with connect(pipelines) as client:
        there = [part for part in parts if client.tables.exists(*part.home)]
        names = [show(*part.home) for part in there]
        if not there:
            raise NotFound(f"pipeline '{config.name}' has written no table yet: just run it")
        if not as_json:
            _show_anew(source, names, whole=table is None)
        confirm(f"Begin {'pipeline' if table is None else f'{table} of pipeline'} {config.name} anew?", yes)
        stamps = with_spark(
            pipelines, lambda spark: begin_anew(source, there, Lake(spark, client), whole=table is None)
        )
    if as_json:
        epochs = {name: stamp.epoch for name, stamp in stamps.items()}
        print_json({"pipeline": config.name, "tables": epochs, "slot-dropped": table is None})
    else:
        click.echo("Done. The next run begins there.")


def _show_anew(source: PostgresSource, names: list[str], *, whole: bool) -> None:
    if source.snapshot == "never":
        click.echo(f"Changes from now on count, of: {plain(', '.join(names))}. (`snapshot` is never.)")
    else:
        click.echo(f"All rows are read again, of: {plain(', '.join(names))}.")
        click.echo("Rows of the copy that are gone at the source, and whose delete was lost, stay.")
    if whole:
        click.echo(f"The slot {source.slot} is dropped; the next run makes another.")


def _target(
    to_offsets: tuple[str, ...], to_time: str | None, to_stamp: str | None, to_history: bool
) -> Target:
    from frazil.stream.reset import ToHistory, ToStamp, ToTime, parse_offsets

    if sum(map(bool, (to_offsets, to_time, to_stamp, to_history))) != 1:
        raise click.UsageError(
            "Say where to, in one way: --to-offsets, --to-time, --to-stamp or --to-history."
        )
    if to_history:
        return ToHistory({})
    if to_offsets:
        return parse_offsets(to_offsets)
    if to_time:
        return ToTime(_time(to_time))
    if to_stamp == _NEWEST:
        return ToStamp()
    if to_stamp is None or not to_stamp.isdecimal():
        raise InvalidInput(
            f"'{to_stamp}' is no snapshot id: write its number, or --to-stamp alone at the end"
        )
    return ToStamp(int(to_stamp))


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(f"'{text}' is no time: write it like 2026-01-31T08:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _show(planned: Reset) -> None:
    rows = [[move.topic, move.partition, _before(move), move.after, _effect(move)] for move in planned.moves]
    print_table(["topic", "partition", "was at", "goes to", "so that"], rows)
    for note in planned.notes:
        click.echo(plain(f"Note: {note}."))
    if planned.again:
        click.echo(f"{planned.again:,} offsets are read again: their rows will be in the table twice.")
    if planned.skipped:
        click.echo(f"{planned.skipped:,} offsets are left out: their rows will not be in the table.")
    if any(move.before is None for move in planned.moves):
        click.echo("Where nothing is known of what was read, rows may come twice or be left out.")


def _before(move: Move) -> str:
    return "-" if move.before is None else str(move.before)


def _effect(move: Move) -> str:
    if move.before is None:
        return "it is read from there"
    if move.again:
        return f"{move.again:,} are read again"
    return f"{move.skipped:,} are left out" if move.skipped else "nothing changes"


def _document(planned: Reset, stamp: Stamp) -> dict[str, Any]:
    return {
        "pipeline": planned.pipeline,
        "epoch": stamp.epoch,
        "read-again": planned.again,
        "left-out": planned.skipped,
        "notes": list(planned.notes),
        "partitions": [
            {"topic": move.topic, "partition": move.partition, "before": move.before, "after": move.after}
            for move in planned.moves
        ],
    }
