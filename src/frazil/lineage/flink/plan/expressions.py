"""Which columns of its input each item of a select list is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from frazil.lineage.flink.plan.lexing import is_plain, places
from frazil.lineage.flink.plan.parser import Item, Parser, Reference
from frazil.lineage.flink.plan.scanning import Unclear

_MOST_PLACES = 6


def parse_items(text: str, columns: Sequence[str] | None) -> tuple[Item, ...]:
    """The entries of a select list over an input of these columns, None for an input that is not known.

    A name that is not one plain word can be read as that column or as something else, wherever it stands. All
    ways are tried; unless those that come out even mean the same, the text is `Unclear`.
    """
    found = places(text, {name for name in columns or () if not is_plain(name)})
    if len(found) > _MOST_PLACES:
        raise Unclear(f"too many column names that can be read in two ways: {text[:60]}")
    readings: list[tuple[Item, ...]] = []
    failed = Unclear(text)
    for taken in product((True, False), repeat=len(found)):
        chosen = [place for place, wanted in zip(found, taken, strict=True) if wanted]
        if len({begin for begin, _ in chosen}) < len(chosen):
            continue
        try:
            readings.append(_parsed(text, columns, dict(chosen)))
        except Unclear as error:
            failed = error
    if not readings:
        raise failed
    if any(_meaning(reading) != _meaning(readings[0]) for reading in readings):
        raise Unclear(f"column names that can be read in two ways: {text[:60]}")
    return readings[0]


def _parsed(text: str, columns: Sequence[str] | None, names: Mapping[int, int]) -> tuple[Item, ...]:
    try:
        return Parser(text, columns, names).items()
    except RecursionError:
        raise Unclear("an expression that is nested too deeply to be read") from None


def _meaning(items: tuple[Item, ...]) -> list[tuple[frozenset[Reference], tuple[str, ...]]]:
    return [(frozenset(item.expression.references), item.names) for item in items]
