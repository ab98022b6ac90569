"""`python -m bench.soak`: measure, print, end with RESULT lines."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from bench.results import output_options, publish
from bench.soak.measure import Sample, Settings, soak
from bench.soak.place import Place, place
from bench.soak.report import Report, progress


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    # An orderly end also when a supervisor asks for it: everything that runs is a child.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    settings = Settings(options.minutes, options.every, options.rate, options.scale, options.freshness)
    with place() as where:
        report = run(where, settings)
    publish(report, "soak", options)


def run(where: Place, settings: Settings) -> Report:
    return Report(soak(where, settings, _tell, _say))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of traffic; 30 unless told")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between samples; 60 unless told")
    parser.add_argument("--rate", type=float, default=300.0, help="transactions a second; 300 unless told")
    parser.add_argument("--scale", type=int, default=1, help="100,000 accounts each; 1 unless told")
    parser.add_argument("--freshness", default="5s", help="of the pipelines; 5s unless told")
    output_options(parser)
    return parser


def _tell(sample: Sample) -> None:
    _say(progress(sample))


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
