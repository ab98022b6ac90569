"""`frazil status`: how far pipelines are, from their tables and topics."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.clusters import LOG_TABLE, log_table_of
from frazil.cli.hot_status import is_hot, show_hot
from frazil.cli.pipelines import connect, each, load
from frazil.cli.remote import iso, plain, print_json
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from frazil.maintenance import Health
    from frazil.stream.status import PartitionStatus, PipelineStatus

#: Of a topic with many partitions those that are behind most are shown; --json has all.
_PARTITIONS = 8


@click.command(short_help="How far pipelines or hot tables are: last commit, lag, whether they can go on.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1, metavar="[PIPELINE|TABLE]...")
@click.option(
    "--log-table",
    metavar="NAME",
    help=f"Of hot tables: where `frazil tier` writes breaches to; 'none': nowhere.  [default: {LOG_TABLE}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def status(file: Path, names: tuple[str, ...], log_table: str | None, as_json: bool) -> None:
    """How far the pipelines of FILE are, or those that are named; of a hot.yaml, the hot tables.

    It asks the catalog and Kafka, not a running process: the table itself knows how far it is. The exit code
    is 1 if a pipeline could not go on as things are. Of the hot tables of a hot.yaml's cluster it shows how
    old the oldest record is that is not in Iceberg, and what was promised.

    \b
    frazil status pipelines.yaml
    frazil status hot.yaml
    """
    if is_hot(file):
        show_hot(file, names, log_table=log_table_of(log_table or LOG_TABLE), as_json=as_json)
        return
    if log_table is not None:
        raise InvalidInput(f"--log-table is for hot tables, and {file} is of pipelines: leave it out")
    pipelines = load(file, names)
    from frazil.stream.status import pipeline_status

    with connect(pipelines) as client:
        found = each(lambda config: pipeline_status(config, client), pipelines)
    if as_json:
        print_json([document(one) for one in found])
    else:
        click.echo("\n\n".join("\n".join(lines(one, time.time())) for one in found))
    if any(one.problems for one in found):
        sys.exit(1)


def document(found: PipelineStatus) -> dict[str, Any]:
    """For scripts."""
    stamp, past = found.stamp, found.history
    return {
        "pipeline": found.pipeline,
        "table": found.table,
        "exists": found.exists,
        "epoch": stamp.epoch if stamp else None,
        "round": stamp.round if stamp else None,
        "snapshot-id": found.snapshot_id,
        "committed-at": iso(found.committed_at),
        "read": stamp.read if stamp else None,
        "written": stamp.written if stamp else None,
        "watermark": iso(found.watermark),
        "history": None
        if past is None
        else {"table": past.table, "snapshot-id": past.snapshot, "taken": past.taken, "left": past.left},
        "lag": found.lag,
        "health": None if found.health is None else dataclasses.asdict(found.health),
        "partitions": [_part_document(part) for part in found.partitions or ()],
        "problems": list(found.problems),
    }


def lines(found: PipelineStatus, now: float) -> list[str]:
    """For people."""
    heading = click.style(found.pipeline, bold=True)
    facts = {"table": found.table if found.exists else f"{found.table} (not created yet)"}
    facts |= _progress(found, now)
    if (past := found.history) is not None:
        facts["history"] = f"{past.left:,} of {past.total:,} rows of {past.table} are still to be taken"
    facts["lag"] = _lag(found)
    if found.health is not None:
        facts["kept"] = _health(found.health)
    shown = [f"{heading}", *(f"  {name:<11}  {plain(text)}" for name, text in facts.items())]
    shown += [click.style(f"  {'problem':<11}  {plain(problem)}", fg="red") for problem in found.problems]
    return shown


def _progress(found: PipelineStatus, now: float) -> dict[str, str]:
    from frazil.stream.observe.texts import ago, count

    stamp = found.stamp
    if stamp is None:
        return {"last commit": "none" if not found.problems else "not known"}
    at = found.committed_at
    when = "its snapshot has expired" if at is None else f"{ago(at.timestamp(), now)}, {iso(at)}"
    facts = {
        "last commit": f"{when} (epoch {stamp.epoch}, round {stamp.round})",
        "rows": f"{count(stamp.written)} written of {count(stamp.read)} records read",
    }
    if found.watermark is not None:
        facts["watermark"] = str(iso(found.watermark))
    return facts


def _lag(found: PipelineStatus) -> str:
    from frazil.stream.observe.texts import count

    if found.partitions is None or (found.problems and not found.partitions):
        return "not known"
    if found.lag is None:
        waiting = sum(part.end for part in found.partitions or ())
        return f"nothing read yet; the log ends at offset {count(waiting)}, all partitions together"
    if not found.lag:
        return "0, caught up"
    behind = sorted((part for part in found.partitions or () if part.lag), key=lambda part: -(part.lag or 0))
    parts = [f"{part.topic}-{part.partition}: {count(part.lag)}" for part in behind[:_PARTITIONS]]
    if len(behind) > _PARTITIONS:
        parts.append(f"and {len(behind) - _PARTITIONS} more")
    return f"{count(found.lag)} ({', '.join(parts)})"


def _health(found: Health) -> str:
    from frazil.stream.observe.texts import count, size

    parts = [
        f"{count(found.files)} files" if found.files is not None else "files not known",
        f"{count(found.small_files)} small since the last merge",
        f"{count(found.snapshots)} snapshots",
        f"{size(found.metadata_bytes)} metadata",
    ]
    return ", ".join(parts)


def _part_document(part: PartitionStatus) -> dict[str, Any]:
    return {
        "topic": part.topic,
        "partition": part.partition,
        "next": part.next,
        "end": part.end,
        "lag": part.lag,
    }
