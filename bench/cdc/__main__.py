"""`python -m bench.cdc`: measure, print, end with RESULT lines."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from bench.cdc.measure import Scenario, measure
from bench.cdc.place import Place, place
from bench.cdc.report import Report
from bench.cdc.sides import MERGES, OURS, SIDES
from bench.results import output_options, publish

_SMALL, _LARGE, _BATCHES, _SIZE = 2_000_000, 20_000_000, 50, 20_000
_QUICK_SMALL, _QUICK_LARGE, _QUICK_BATCHES, _QUICK_SIZE = 20_000, 50_000, 4, 1_000
#: Of the larger table, of which a MERGE takes long, and of the append-mostly case.
_FEWER = 5
_WARM = 5
_SCENARIOS = ("small", "large", "append")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    _sized(options)
    with place() as where:
        report = run(where, scenarios(options), options.repeat)
    publish(report, "cdc", options)


def run(where: Place, several: Sequence[Scenario], repeat: int = 1) -> Report:
    report = Report(several[0].size)
    for scenario in several:
        for name in [name for _ in range(repeat) for name in scenario.sides]:
            side = SIDES[name]
            _say(f"{scenario.name}: {side.label} …")
            _settle(where)
            found = measure(where, scenario, side)
            report.measurements.append(found)
            _say(
                f"{scenario.name}: {side.label}: {found.batch_cpu:.2f} CPU-s a batch, "
                f"{found.per_second:,.0f} changes/s, {found.wrong} rows wrong"
            )
    return report


def scenarios(options: argparse.Namespace) -> list[Scenario]:
    small, large, size, sides = options.small, options.large, options.size, tuple(options.sides)
    fewer, warm = min(_FEWER, options.batches), options.warm
    both = tuple(side for side in sides if side in (*OURS, *MERGES))
    found = {
        "small": Scenario(small, options.batches, warm, size, "random", sides, reads=True),
        "large": Scenario(large, fewer, warm, size, "random", both),
        "append": Scenario(small, 2 * fewer, warm, size, "append", sides),
    }
    return [found[name] for name in options.tables if found[name].sides]


def _settle(where: Place) -> None:
    """What the last one left behind would otherwise be paid for by the next one."""
    time.sleep(2)
    if not where.kafka.running:
        raise RuntimeError(f"the broker ended: {where.kafka.log_tail()}")


def _sized(options: argparse.Namespace) -> None:
    """What was not said, by --quick."""
    full = (_SMALL, _LARGE, _BATCHES, _SIZE, _WARM, [*SIDES])
    quick = (_QUICK_SMALL, _QUICK_LARGE, _QUICK_BATCHES, _QUICK_SIZE, 1, [*OURS, *MERGES])
    names = ("small", "large", "batches", "size", "warm", "sides")
    for name, value in zip(names, quick if options.quick else full, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, value)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.cdc", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rows, no Flink: whether it works, not how well"
    )
    parser.add_argument("--small", type=int, help=f"rows of the smaller table; {_SMALL:,} unless told")
    parser.add_argument("--large", type=int, help=f"rows of the larger table; {_LARGE:,} unless told")
    parser.add_argument("--batches", type=int, help=f"batches of the smaller table; {_BATCHES} unless told")
    parser.add_argument("--size", type=int, help=f"changes of a batch; {_SIZE:,} unless told")
    parser.add_argument("--warm", type=int, help=f"batches of the warm-up; {_WARM} unless told")
    parser.add_argument("--repeat", type=int, default=1, help="measured runs of each side; medians count")
    parser.add_argument(
        "--sides", "--only", type=_of(SIDES), help=f"of {','.join(SIDES)}; all but Flink with --quick"
    )
    parser.add_argument(
        "--tables", type=_of(_SCENARIOS), default=list(_SCENARIOS), help=f"of {','.join(_SCENARIOS)}"
    )
    output_options(parser)
    return parser


def _of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Some of the names, with commas between them."""
    known = list(names)

    def chosen(text: str) -> list[str]:
        found = [name for name in text.split(",") if name]
        if unknown := set(found) - set(known):
            message = f"no such one: {', '.join(unknown)}; there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(message)
        return found

    return chosen


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
