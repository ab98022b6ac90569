"""`frazil status` of hot tables: how far behind Iceberg is, and whether that is as promised."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.clusters import cluster_of
from frazil.cli.remote import iso, plain, print_json
from frazil.core.durations import show_duration
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from frazil.hot.tiering.status import HotStatus


def is_hot(file: Path, keys: Sequence[str] = ("kafka", "catalog", "tables")) -> bool:
    """Whether it is a file of hot tables, and not of pipelines. One that cannot be read is neither.

    `keys`: those that tell, beside `datalake`.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    if not isinstance(found, dict) or "pipelines" in found:
        return False
    return any(str(key) in keys or str(key).startswith("datalake") for key in found)


def show_hot(file: Path, names: Sequence[str], *, log_table: str | None, as_json: bool) -> None:
    """Every hot table of the file's cluster, or those that are named; exits with 1 if one cannot go on.

    `log_table`: where breaches were written to; None: nowhere.
    """
    from frazil.client import Retry
    from frazil.hot.tiering.status import hot_status

    cluster = cluster_of(file)
    with cluster.client(retry=Retry(attempts=3)) as client:
        found = hot_status(client, cluster.require_brokers(), log_table, names)
    known = {one.table for one in found}
    unknown = [name for name in names if name not in known]
    if unknown:
        there = ", ".join(sorted(known)) or "none"
        raise InvalidInput(f"no hot table {', '.join(unknown)} at the cluster of {file}. There are: {there}")
    chosen = [one for one in found if not names or one.table in names]
    if as_json:
        print_json([document(one) for one in chosen])
    else:
        click.echo("\n\n".join("\n".join(lines(one, time.time())) for one in chosen) or "no hot tables")
    if any(one.problems for one in chosen):
        sys.exit(1)


def document(found: HotStatus) -> dict[str, Any]:
    """For scripts."""
    stamp, at = found.stamp, found.tiered_at
    return {
        "table": found.table,
        "topic": found.topic,
        "enabled": found.enabled,
        "keyed": found.keyed,
        "freshness": found.freshness,
        "lag": found.lag,
        "breach": found.breach,
        "breaches": found.breaches,
        "cause": found.cause,
        "backlog": found.backlog,
        "epoch": stamp.epoch if stamp else None,
        "round": stamp.round if stamp else None,
        "read": stamp.read if stamp else None,
        "tiered-at": iso(at),
        "watermark": iso(found.watermark),
        "problems": list(found.problems),
    }


def lines(found: HotStatus, now: float) -> list[str]:
    """For people."""
    from frazil.stream.observe.texts import ago, count

    facts = {"kind": "keyed" if found.keyed else "log"}
    if not found.enabled:
        facts["tiering"] = "off"
    facts["lag"] = "not known" if found.lag is None else _lag(found)
    facts["breaches"] = "not known" if found.breaches is None else _breaches(found.breaches, found.cause)
    facts["in log only"] = "not known" if found.backlog is None else f"{count(found.backlog)} offsets"
    last = "never"
    if found.stamp is not None:
        at = found.tiered_at
        when = "its snapshot has expired" if at is None else ago(at.timestamp(), now)
        last = f"{when} (epoch {found.stamp.epoch}, round {found.stamp.round})"
    facts["tiered"] = last
    if found.watermark is not None:
        facts["watermark"] = str(iso(found.watermark))
    shown = [
        click.style(found.table, bold=True),
        *(f"  {name:<11}  {plain(text)}" for name, text in facts.items()),
    ]
    return shown + [click.style(f"  {'problem':<11}  {plain(one)}", fg="red") for one in found.problems]


def _lag(found: HotStatus) -> str:
    promised = show_duration(found.freshness)
    if not found.lag:
        return f"0, caught up (promised: {promised})"
    broken = ", BROKEN" if found.breach else ""
    return f"{found.lag:.1f} s (promised: {promised}{broken})"


def _breaches(number: int, cause: str | None) -> str:
    from frazil.stream.observe.texts import count

    last = f", the last one: {cause}" if cause else ""
    return f"{count(number) if number else 'none'} in 24 hours{last}"
