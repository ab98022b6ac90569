"""`frazil verify`: the log against the table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import connect, load, with_spark
from frazil.cli.remote import plain, print_json
from frazil.core.errors import FrazilError

if TYPE_CHECKING:
    from frazil.stream.config import Pipelines
    from frazil.stream.verify import PartitionRange, Verification

_WRONG, _UNKNOWN, _INTERRUPTED = 1, 2, 130
#: --json has all.
_PARTITIONS = 16


@click.command(short_help="Compare the log with the table: nothing lost, nothing twice.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1, metavar="[PIPELINE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def verify(file: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Compare what the pipelines of FILE read, or those that are named, with what is in their tables.

    The log is read again from where the pipeline began to its last commit, and so are the rows of the table.
    Exit code 0: they agree; 1: they do not; 2: it cannot be known, because the log was trimmed, say,
    snapshots have expired, or the catalog does not answer. What can be compared is compared even then.
    """
    try:
        found = _compared(load(file, names))
    except FrazilError as error:
        click.echo(f"frazil: {error.message}", err=True)
        sys.exit(_UNKNOWN)
    except KeyboardInterrupt:
        click.echo("Stopped: nothing is known about what was not compared yet.", err=True)
        sys.exit(_INTERRUPTED)
    from frazil.stream.verify import Verdict

    if as_json:
        print_json([document(one) for one in found])
    else:
        click.echo("\n\n".join("\n".join(lines(one)) for one in found))
    verdicts = {one.verdict for one in found}
    if verdicts != {Verdict.OK}:
        sys.exit(_WRONG if Verdict.WRONG in verdicts else _UNKNOWN)


def _compared(pipelines: Pipelines) -> list[Verification]:
    from frazil.stream.kafka.log import kafka_source
    from frazil.stream.verify import verify as compare

    for config in pipelines.pipelines:
        kafka_source(config, "verify")
    with connect(pipelines) as client:
        return with_spark(
            pipelines,
            lambda spark: [compare(config, spark, client, _say) for config in pipelines.pipelines],
        )


def _say(text: str) -> None:
    click.echo(plain(text), err=True)


def document(found: Verification) -> dict[str, Any]:
    """For scripts."""
    stamp = found.stamp
    return {
        "pipeline": found.pipeline,
        "table": found.table,
        "verdict": found.verdict.value,
        "epoch": stamp.epoch if stamp else None,
        "round": stamp.round if stamp else None,
        "read": stamp.read if stamp else None,
        "written": stamp.written if stamp else None,
        "checks": [
            {"name": check.name, "verdict": check.verdict.value, "text": check.text} for check in found.checks
        ],
        "notes": list(found.notes),
        "partitions": [_part_document(part) for part in found.partitions],
    }


def _part_document(part: PartitionRange) -> dict[str, Any]:
    return {
        "topic": part.topic,
        "partition": part.partition,
        "first": part.first,
        "next": part.next,
        "records": part.records,
        "without-record": part.without_record,
        "not-compared": part.not_compared,
        "trimmed": part.trimmed,
    }


def lines(found: Verification) -> list[str]:
    """For people."""
    verdict = found.verdict.value
    colour = {"ok": "green", "wrong": "red"}.get(verdict, "yellow")
    shown = [f"{click.style(plain(found.pipeline), bold=True)}: {click.style(verdict, fg=colour)}"]
    shown.append(f"  {'table':<8}  {plain(found.table)}")
    shown += [f"  {check.name:<8}  {check.verdict.value:<15}  {plain(check.text)}" for check in found.checks]
    shown += [f"  note      {plain(note)}" for note in found.notes]
    shown += [f"  {plain(_part(part))}" for part in found.partitions[:_PARTITIONS]]
    if len(found.partitions) > _PARTITIONS:
        shown.append(f"  and {len(found.partitions) - _PARTITIONS} more partitions (--json has all)")
    return shown


def _part(part: PartitionRange) -> str:
    text = f"{part.topic}-{part.partition}: offsets {part.first:,} to {part.next:,}"
    if part.records is not None:
        text += f", {part.records:,} records"
    if part.without_record:
        text += f", {part.without_record:,} without one (transaction markers, aborted, compacted)"
    if part.not_compared:
        text += f"; {part.not_compared:,} before are not compared"
    if part.trimmed:
        text += f" ({part.trimmed:,} trimmed)"
    return text
