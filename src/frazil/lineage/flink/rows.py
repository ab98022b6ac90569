"""The columns that an operator puts out, each with the source columns it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from frazil.lineage.flink.plan.parser import Reference
from frazil.lineage.flink.plan.scanning import Unclear
from frazil.lineage.model import Derivation, Input


@dataclass(frozen=True)
class Column:
    """A column by position: its name, what it is made of, and why that is not all that it is made of."""

    name: str
    inputs: frozenset[Input] = frozenset()
    unknown: str | None = None


@dataclass(frozen=True)
class Row:
    """What an operator puts out. `columns` is None where the plan does not name them.

    Then `unknown` says why, or is None for rows of constants, which come from no column.
    """

    columns: tuple[Column, ...] | None = None
    unknown: str | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in order, where they are known."""
        return None if self.columns is None else tuple(column.name for column in self.columns)

    def read(self, reference: Reference, derivation: Derivation) -> Column:
        """What an expression gets that reads this column, or a field of it."""
        if self.columns is None:
            return Column(reference.column, unknown=self.unknown)
        found = {column for column in self.columns if column.name == reference.column}
        if len(found) != 1:
            raise Unclear(f"{reference.column} names {len(found) or 'no'} columns of the input")
        (column,) = found
        inputs = (
            replace(
                read,
                path=read.path + reference.path if read.derivation is Derivation.COPY else read.path,
                derivation=max(read.derivation, derivation),
            )
            for read in column.inputs
        )
        return Column(column.name, strongest(inputs), column.unknown)


def opaque(reason: str) -> Row:
    """A row of which the plan tells nothing."""
    return Row(None, reason)


def strongest(inputs: Iterable[Input]) -> frozenset[Input]:
    """Each column once, with the strongest step that any way to it has."""
    found: dict[tuple[str, str, tuple[str, ...]], Input] = {}
    for read in inputs:
        key = (read.endpoint, read.column, read.path)
        if key not in found or found[key].derivation < read.derivation:
            found[key] = read
    return frozenset(found.values())


def combined(name: str, parts: Sequence[Column]) -> Column:
    """A column made of all of these."""
    unknown = next((part.unknown for part in parts if part.unknown), None)
    return Column(name, strongest(read for part in parts for read in part.inputs), unknown)


def union(rows: Sequence[Row]) -> Row:
    """Rows of several inputs as one, by position, under the names of the first."""
    if len(rows) == 1:
        return rows[0]
    widths = {len(row.columns) for row in rows if row.columns is not None}
    if len(widths) > 1:
        raise Unclear(f"a union of inputs of {sorted(widths)} columns")
    known = [row.columns for row in rows if row.columns is not None]
    if len(known) < len(rows):
        return opaque(
            next((row.unknown for row in rows if row.unknown), None) or "one input has constants only"
        )
    return Row(tuple(combined(parts[0].name, parts) for parts in zip(*known, strict=True)))


def agreed(rows: Sequence[Row], reason: str) -> Row:
    """What all readings of an operator say; `reason` stands for where they differ."""
    first, *others = rows
    if all(row == first for row in others):
        return first
    if first.columns is None or any(row.names != first.names for row in others):
        return opaque(reason)
    columns = [row.columns for row in rows if row.columns is not None]
    return Row(tuple(_common(parts, reason) for parts in zip(*columns, strict=True)))


def _common(parts: Sequence[Column], reason: str) -> Column:
    """A column as several readings have it: what is in all of them is right, whichever holds."""
    every = [{(read.endpoint, read.column, read.path) for read in part.inputs} for part in parts]
    shared = set.intersection(*every)
    inputs = strongest(
        read for part in parts for read in part.inputs if (read.endpoint, read.column, read.path) in shared
    )
    unknown = next((part.unknown for part in parts if part.unknown), None)
    if any(keys != shared for keys in every):
        unknown = unknown or reason
    return Column(parts[0].name, inputs, unknown)


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names of a joined row: one that was there before gets the first number that makes it new."""
    used: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in used:
            free = f"{name}{number}"
            number += 1
        used[free] = None
    return tuple(used)
