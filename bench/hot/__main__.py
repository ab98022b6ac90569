"""`python -m bench.hot`: measure, print, end with RESULT lines."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from bench.hot import many, union, visible
from bench.hot.many import Settings
from bench.hot.place import Place, place
from bench.hot.report import Report
from bench.results import output_options, publish

_PARTS = ("union", "visible", "tables")
_FULL = {
    "rows": 10_000_000,
    "tails": [0, 10_000, 100_000, 1_000_000],
    "first": 100,
    "repeat": 20,
    "rate": 10_000,
    "seconds": 60.0,
    "warm": 30.0,
    "tables": 50,
    "minutes": 10.0,
    "tables_warm": 60.0,
}
_QUICK = {
    "rows": 50_000,
    "tails": [0, 100, 1000, 10_000],
    "first": 2,
    "repeat": 2,
    "rate": 2000,
    "seconds": 10.0,
    "warm": 10.0,
    "tables": 6,
    "minutes": 1.0,
    "tables_warm": 20.0,
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    # An orderly end also when a supervisor asks for it: everything that runs is a child.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with place() as where:
        report = run(where, options)
    publish(report, "hot", options)


def run(where: Place, options: argparse.Namespace) -> Report:
    report = Report(options.rows)
    if "union" in options.only:
        report.tails = union.measure(where, options.rows, options.tails, options.first, options.repeat, _say)
    if "visible" in options.only:
        _say(f"a reader without Spark under {options.rate:,} events/s …")
        report.visible = visible.measure(
            where, rate=options.rate, warm_seconds=options.warm, seconds=options.seconds
        )
    if "tables" in options.only:
        settings = Settings(
            options.tables, options.minutes, options.tables_rate, options.freshness, options.tables_warm
        )
        _say(f"{settings.tables} tables at freshness {settings.freshness} for {settings.minutes:g} minutes …")
        report.kept = many.measure(where, settings)
    return report


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was not said, by --quick."""
    options = _options().parse_args(arguments)
    for name, value in (_QUICK if options.quick else _FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.hot", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rows and tables: whether it works, not how well"
    )
    parser.add_argument(
        "--only", type=_parts, default=list(_PARTS), help=f"of {','.join(_PARTS)}; all unless told"
    )
    parser.add_argument("--rows", type=int, help=f"of the table that is read; {_FULL['rows']:,} unless told")
    parser.add_argument(
        "--tails",
        type=_sizes,
        help="changes in the log only, even numbers; 0,10000,100000,1000000 unless told",
    )
    parser.add_argument("--first", type=int, help="reads of a small table by each side, before those")
    parser.add_argument("--repeat", type=int, help="measured reads of each side; the middle one counts")
    parser.add_argument("--rate", type=int, help="events a second that the reader without Spark follows")
    parser.add_argument("--seconds", type=float, help="for which it does, behind the warm-up")
    parser.add_argument("--warm", type=float, help="seconds of that")
    parser.add_argument("--tables", type=int, help=f"that are tiered; {_FULL['tables']} unless told")
    parser.add_argument("--minutes", type=float, help=f"for which they are; {_FULL['minutes']:g} unless told")
    parser.add_argument("--tables-warm", type=float, help="seconds before those minutes")
    parser.add_argument("--tables-rate", type=float, default=1000.0, help="records a second of all of them")
    parser.add_argument("--freshness", default="30s", help="that each of them promises; 30s unless told")
    output_options(parser)
    return parser


def _parts(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(_PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(_PARTS)}")
    return names


def _sizes(text: str) -> list[int]:
    """In their order: a log only grows."""
    return sorted({int(part) for part in text.split(",")})


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
