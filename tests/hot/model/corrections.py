"""A seeded correction of a hot table: some words get another amount, or go, wherever tiering is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Final

from tests.hot.model.log import Corrected, Row
from tests.hot.model.table import ModelTable, stamped

import frazil
from frazil.hot.correct import drop, publish

#: Predicates, and the words for which they are true.
_RANGES: Final = {
    "word = 'x'": ("x",),
    "word IS NULL": (None,),
    "word IN ('yy', '0')": ("yy", "0"),
    "length(word) > 4": ('a "quoted" \\ word', "größer", "line\nbreak"),
}


def correct(table: ModelTable, rng: Random, meanwhile: Callable[[], None]) -> str | None:
    """`meanwhile` happens between the branch and its publication. None: there is nothing in Iceberg yet."""
    where, words = rng.choice(list(_RANGES.items()))
    amount = Decimal(rng.randrange(10**6)).scaleb(-2)
    goes = rng.random() < 0.3
    names = [f"`{name}`" for name in table.columns]
    value = f"CAST('{amount}' AS decimal(12, 2)) AS amount"
    columns = ", ".join(value if name == "`amount`" else name for name in names)
    # Of those that go, rows without an amount.
    kept = " AND amount IS NOT NULL" if goes else ""
    sql = f"SELECT {columns} FROM {table.name} WHERE {where}{kept}"
    world = table.world
    if stamped(table.metadata(), table.hot)[0] is None:
        return None
    made = frazil.correct(world.spark, table.name, where=where, sql=sql, catalog=world.client)
    table.check()
    if rng.random() < 0.2:
        drop(world.spark, table.name, made.correction.id, catalog=world.client)
        table.check()
        return "dropped"
    meanwhile()
    done = publish(world.spark, table.name, made.correction.id, catalog=world.client)
    metadata, snapshot = table.metadata(), done.correction.snapshot
    parent = next(one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot)[
        "parent-snapshot-id"
    ]
    _, ends = stamped(metadata, table.hot, parent)
    table.log.corrections.append(Corrected(ends, _change(words, amount, goes)))
    table.check()
    return f"{where}{', some go' if goes else ''}: {done.published}{', again' if done.recomputed else ''}"


def _change(words: tuple[str | None, ...], amount: Decimal, goes: bool) -> Callable[[Row], Row | None]:
    def change(row: Row) -> Row | None:
        if row.get("word") not in words:
            return row
        if goes and row.get("amount") is None:
            return None
        return {**row, "amount": amount}

    return change
