"""`python -m bench.lineage`: run the jobs, read them, end with RESULT lines."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lineage.standin import CAPTURED, StandIn, visible

from bench.lineage.memory import peak_mb
from bench.lineage.place import Place, cluster
from bench.lineage.report import OURS, THEIRS, Report, Run
from bench.lineage.score import score
from bench.lineage.sides import Kind, emitted
from bench.results import output_options, publish
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres

_KINDS: dict[str, Kind] = {OURS: "frazil-flink", THEIRS: "flink"}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    # An orderly end also when a supervisor asks for it: everything that runs is a child.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    publish(run(50 if options.quick else 1000), "lineage", options)


def run(jobs: int) -> Report:
    """All of it, with so many jobs of the stand-in."""
    report = Report(many=jobs)
    with TemporaryDirectory(prefix="frazil-bench-") as directory:
        _say("starting the services and the jobs …")
        with ExitStack() as stack:
            kafka, server = stack.enter_context(Kafka()), stack.enter_context(FrazilServer())
            postgres = stack.enter_context(Postgres(fsync=False))
            read(stack.enter_context(cluster(kafka, server, postgres)), report, Path(directory))
        _say(f"{jobs:,} jobs …")
        for side in _KINDS:
            report.seconds[side] = many(side, jobs, Path(directory))
        for count in (len(CAPTURED), jobs):
            report.peaks[count] = peak_mb(count, Path(directory))
    return report


def read(place: Place, report: Report, folder: Path) -> None:
    """The cluster by both sources, with and without the gateway, and what else can be told to ours."""
    for side, told in ((OURS, True), (OURS, False), (THEIRS, False)):
        for gateway in (True, False):
            said = emitted(_KINDS[side], place.settings(gateway=gateway, told=told), folder)
            names = (("gateway", gateway), ("DDL, catalog", told))
            label = ", ".join(name for name, given in names if given) or "the JobManager alone"
            report.runs.append(Run(side, label, score(said, derivations=False), whole=told))


def many(side: str, jobs: int, folder: Path) -> float:
    """Seconds for so many jobs of the stand-in."""
    copies = jobs // len(CAPTURED)
    names = tuple(f"{name}#{number}" for number in range(copies) for name in CAPTURED)
    with StandIn(jobs=names, statements=visible()) as standin:
        connection = {"rest_api_url": standin.url, "sql_gateway_url": standin.url}
        begun = time.perf_counter()
        said = emitted(_KINDS[side], {"connection": connection, "max_workers": 10}, folder)
        seconds = time.perf_counter() - begun
    if len(said) != len(names):
        raise RuntimeError(f"{side} gave {len(said):,} of {len(names):,} jobs")
    return seconds


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.lineage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same jobs, but 50 instead of 1,000 copies")
    output_options(parser)
    return parser


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
