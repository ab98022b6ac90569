"""`python -m bench.ingest`: measure, print, end with RESULT lines."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from bench.ingest import latency, stages
from bench.ingest.encodings import REGISTERED, Name
from bench.ingest.place import Place, place
from bench.ingest.report import FORMATS, Measurement, Report, Worker
from bench.ingest.sides import SIDES, Side
from bench.meter import Meter
from bench.processes import cpu_seconds
from bench.results import output_options, publish

_TOPIC, _WARM_TOPIC = "orders", "warm"
#: Rows, rows of the warm-up, seconds of latency and of its warm-up.
_SIZES, _QUICK = (8_000_000, 1_000_000, 60.0, 20.0), (500_000, 200_000, 10.0, 5.0)
_WORKERS = "workers"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    _sized(options)
    encodings: list[Name] = sorted({SIDES[name].encoding for name in options.sides})
    report = Report(rows=options.rows, warm=options.warm)
    with place(registry=not REGISTERED.keys().isdisjoint(encodings)) as where:
        for encoding in encodings:
            _say(f"producing {options.warm + options.rows:,} messages in {encoding} …")
            where.fill(_topic(_WARM_TOPIC, encoding), options.warm, encoding)
            where.fill(_topic(_TOPIC, encoding), options.rows, encoding)
        for name in options.sides:
            _side(report, where, SIDES[name](where), options.repeat)
        if "fused" in options.sides:
            report.stages = stages.measure(where, _topic(_TOPIC, "json"))
        if not FORMATS.keys().isdisjoint(options.sides):
            report.decoding = stages.decoding(where, options.rows)
        if options.latency_seconds:
            _say(f"latency under {options.rate:,} rows/s …")
            report.latency = latency.measure(
                where, rate=options.rate, warm_seconds=options.latency_warm, seconds=options.latency_seconds
            )
    publish(report, "ingest", options)


def _side(report: Report, where: Place, side: Side, repeat: int) -> None:
    _say(f"{side.label}: starting, warming …")
    side.start()
    with closing(side):
        _once(report, where, side, _topic(_WARM_TOPIC, side.encoding))
        for _ in range(repeat):
            _settle(where)
            found = _once(report, where, side, _topic(_TOPIC, side.encoding))
            report.measurements.append(found)
            _say(
                f"{side.label}: {found.per_second:,.0f} rows/s, {found.per_cpu_second:,.0f} rows/CPU-s, "
                f"{found.landed.rows:,} rows, {found.landed.wrong} wrong"
            )


def _once(report: Report, where: Place, side: Side, topic: str) -> Measurement:
    table = f"{side.name}_{topic}"
    rows = where.topics[topic]
    where.create(table)
    before = cpu_seconds(where.server.pid)
    with Meter(side.processes) as meter:
        side.ingest(topic, table)
    catalog = cpu_seconds(where.server.pid) - before
    load = os.getloadavg()[0]
    found = Measurement(side.name, side.label, rows, meter.usage, catalog, where.examine(table, rows), load)
    where.drop(table)
    if side.name == "fused":
        report.workers.append(Worker(rows, meter.usage.largest_mb.get(_WORKERS, 0.0)))
    return found


def _settle(where: Place) -> None:
    """What the last one left behind would otherwise be paid for by the next one."""
    time.sleep(2)
    if not where.kafka.running:
        raise RuntimeError(f"the broker ended: {where.kafka.log_tail()}")


def _topic(name: str, encoding: Name) -> str:
    return f"{name}_{encoding}"


def _sized(options: argparse.Namespace) -> None:
    """What was not said, by --quick."""
    names = ("rows", "warm", "latency_seconds", "latency_warm")
    for name, size in zip(names, _QUICK if options.quick else _SIZES, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, size)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.ingest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few messages: whether it works, not how well")
    parser.add_argument("--rows", type=int, help=f"messages of a topic; {_SIZES[0]:,} unless told")
    parser.add_argument("--warm", type=int, help=f"messages of a warm-up; {_SIZES[1]:,} unless told")
    parser.add_argument("--repeat", type=int, default=1, help="measured runs of each side; medians count")
    parser.add_argument(
        "--sides", "--only", type=_sides, default=list(SIDES), help=f"of {','.join(SIDES)}; '' for none"
    )
    parser.add_argument("--rate", type=int, default=10_000, help="rows a second while latency is measured")
    parser.add_argument("--latency-seconds", type=float, help="0 leaves it out")
    parser.add_argument("--latency-warm", type=float, help="seconds that do not count")
    output_options(parser)
    return parser


def _sides(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(SIDES):
        raise argparse.ArgumentTypeError(f"no such side: {', '.join(unknown)}; there are {', '.join(SIDES)}")
    return names


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
