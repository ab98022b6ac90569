"""`python -m bench.catalog`: measure, print, end with RESULT lines."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from bench.catalog import scale, vended
from bench.catalog.client import Plan, run
from bench.catalog.report import GOALS, Report
from bench.catalog.targets import Database, Server, Target, database_server, target
from bench.processes import resident_mb
from bench.results import output_options, publish
from frazil.devstack.postgres import Postgres

_PLANS = {
    "load": Plan("load", warm=20_000, measured=30_000),
    "create": Plan("create", warm=3_000, measured=3_000),
    "commit": Plan("commit", warm=3_000, measured=3_000),
    "hot": Plan("hot", warm_seconds=5, seconds=15),
}
_QUICK = {
    "load": Plan("load", warm=5_000, measured=6_000),
    "create": Plan("create", warm=600, measured=600),
    "commit": Plan("commit", warm=600, measured=600),
    "hot": Plan("hot", warm_seconds=2, seconds=6),
}
_SERVERS: tuple[Server, ...] = ("frazil", "reference")
_DATABASES: tuple[Database, ...] = ("postgres", "sqlite")
#: What the reference server has no part in.
_OURS = ("scale", "vended")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    options.server = options.server or list(_SERVERS)
    report = Report(quick=options.quick)
    workloads = options.only or [*GOALS, *_OURS]
    for database in options.database or _DATABASES:
        with database_server(database) as postgres:
            _compare(report, database, postgres, workloads, options)
            if "scale" in workloads and "frazil" in options.server:
                _scale(report, database, postgres, options)
            if "vended" in workloads and "frazil" in options.server:
                _vended(report, database, postgres, options)
    publish(report, "catalog", options)


def _compare(
    report: Report,
    database: Database,
    postgres: Postgres | None,
    workloads: Sequence[str],
    options: argparse.Namespace,
) -> None:
    plans = [plan for name, plan in (_QUICK if options.quick else _PLANS).items() if name in workloads]
    if not plans:
        return
    for server in options.server:
        with target(server, database, postgres, f"bench_{server}") as running:
            time.sleep(1)
            report.rest_mb[(server, database)] = resident_mb(running.pid)
            for plan in plans:
                _settle(postgres)
                _one(report, running, plan)


def _settle(postgres: Postgres | None) -> None:
    """What the last workload left to be written would otherwise be paid for by the next one."""
    if postgres is not None:
        postgres.execute("CHECKPOINT")
    os.sync()
    time.sleep(1)


def _one(report: Report, running: Target, plan: Plan) -> None:
    _say(f"{running.label}: {plan.workload} …")
    started = time.monotonic()
    measurement = run(running, plan)
    report.measurements.append(measurement)
    _say(
        f"{running.label}: {plan.workload}: {measurement.per_second:,.0f} op/s, "
        f"{measurement.cpu_ms:.3f} ms CPU, p99 {measurement.p99:.1f} ms; {measurement.verified} "
        f"({time.monotonic() - started:.0f} s)"
    )


def _scale(
    report: Report, database: Database, postgres: Postgres | None, options: argparse.Namespace
) -> None:
    tables, rounds = (20_000, 3) if options.quick else (100_000, 5)
    warm, measured = (3_000, 6_000) if options.quick else (10_000, 30_000)
    _say(f"frazil on {database}: loads among 100 and among {tables:,} tables …")
    with target("frazil", database, postgres, "bench_scale") as running:
        found = scale.measure(running, tables, warm=warm, measured=measured, rounds=rounds)
    report.scale[database] = found
    for one in found:
        _say(f"frazil on {database}: {one.workload}: {one.cpu_ms:.3f} ms CPU")


def _vended(
    report: Report, database: Database, postgres: Postgres | None, options: argparse.Namespace
) -> None:
    warm, measured = (3_000, 6_000) if options.quick else (10_000, 30_000)
    _say(f"frazil on {database}: loads with and without credentials …")
    with target("frazil", database, postgres, "bench_vended") as running:
        found = vended.measure(running, warm=warm, measured=measured, rounds=3)
    report.vended[database] = found
    for one in found:
        _say(f"frazil on {database}: {one.workload}: {one.cpu_ms:.3f} ms CPU")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.catalog", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs, less exact")
    parser.add_argument("--only", action="append", choices=[*GOALS, *_OURS], help="may be repeated")
    parser.add_argument("--database", action="append", choices=_DATABASES, help="may be repeated")
    parser.add_argument("--server", action="append", choices=_SERVERS, help="may be repeated")
    output_options(parser)
    return parser


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
