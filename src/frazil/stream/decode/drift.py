"""What the records of a batch would need of a schema, within bounds that no record can break.

A new field is refused, and its record is bad, if its name

- is another's but for case, or for dots (`a.b` beside a column `a` with a field `b`): engines find columns
  by such names, and could not tell them apart;
- is empty, longer than 255 characters, holds control characters or a backtick, or is one that Iceberg or the
  pipeline keeps for itself;
- or if the schema would have more than 1,000 fields by it, or is more than 16 deep.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from frazil.core.schema import ListType, MapType, Schema, SchemaChange, StructType, Type
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.infer import united
from frazil.stream.decode.problem import Problem, cut

MAX_FIELDS = 1_000
MAX_NAME = 255
MAX_LEVELS = 16
#: Columns that every Iceberg table has besides its own.
_ICEBERG = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
_UNFIT = re.compile(r"[\x00-\x1f\x7f`]")
_Path = tuple[str, ...]


class Drift:
    """Collects changes, record by record."""

    def __init__(self, schema: Schema, reserved: Iterable[str] = ()) -> None:
        #: Every path, as engines look for it, to what it is.
        self._known = {_folded(path): path for path in _paths((), StructType(schema.fields))}
        self._reserved = frozenset(map(str.lower, (*_ICEBERG, *reserved)))
        self._new: dict[str, _Path] = {}
        self._changes: dict[tuple[_Path, bool], Type] = {}

    def fresh(self) -> Drift:
        """For the same schema, with nothing collected."""
        drift = object.__new__(Drift)
        drift._known, drift._reserved = self._known, self._reserved
        drift._new, drift._changes = {}, {}
        return drift

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        return tuple(SchemaChange(path, kind, widens) for (path, widens), kind in self._changes.items())

    def add(self, changes: Sequence[SchemaChange]) -> None:
        """All that one record needs, or Problem and nothing of it."""
        wanted: dict[tuple[_Path, bool], Type] = {}
        for change in changes:
            key = (change.path, change.widens)
            known = wanted.setdefault(key, change.type)
            if known is not change.type:
                try:
                    wanted[key] = united(known, change.type, strict=True)
                except Problem as problem:
                    raise problem.within(_shown(change.path)) from None
        fresh = {key: kind for key, kind in wanted.items() if self._changes.get(key) != kind}
        paths: dict[str, _Path] = {}
        for (path, widens), kind in fresh.items():
            if not widens:
                self._check(path, kind, paths)
        self._new |= paths
        for key, kind in fresh.items():
            self._changes[key] = united(self._changes.get(key, kind), kind)

    def _check(self, path: _Path, kind: Type, paths: dict[str, _Path]) -> None:
        for one in itertools.chain((path,), _paths(path, kind)):
            folded = _folded(one)
            known = self._known.get(folded) or self._new.get(folded) or paths.setdefault(folded, one)
            reason = self._refusal(one, known)
            if reason is None and len(self._known) + len(self._new) + len(paths) > MAX_FIELDS:
                reason = f"the table would have more than {MAX_FIELDS} fields by it"
            if reason is not None:
                raise Problem(
                    f"no column has this field, and the table cannot get one: {reason}", Fault.UNKNOWN_FIELD
                ).within(_shown(one))

    def _refusal(self, path: _Path, known: _Path) -> str | None:
        name = path[-1]
        if known != path:
            return f"'{cut('.'.join(known))}' is there, and differs only by case or dots"
        if not name or len(name) > MAX_NAME or _UNFIT.search(name):
            return f"names have 1 to {MAX_NAME} characters, no control characters and no backtick"
        if len(path) == 1 and name.lower() in self._reserved:
            return "a column of that name has another meaning"
        return f"it is more than {MAX_LEVELS} levels deep" if len(path) > MAX_LEVELS else None


def settled(
    schema: Schema, changes: Iterable[SchemaChange], reserved: Iterable[str] = ()
) -> tuple[SchemaChange, ...]:
    """One list of what several batches need. What cannot be is left out: its records are bad next time."""
    drift = Drift(schema, reserved)
    for change in changes:
        try:
            drift.add([change])
        except Problem:
            continue
    return drift.changes


def _paths(path: _Path, kind: Type) -> Iterator[_Path]:
    """Of everything that has a name inside a type."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield (*path, field.name)
            yield from _paths((*path, field.name), field.type)
    elif isinstance(kind, ListType):
        yield (*path, "element")
        yield from _paths((*path, "element"), kind.element)
    elif isinstance(kind, MapType):
        yield (*path, "key")
        yield (*path, "value")
        yield from _paths((*path, "value"), kind.value)


def _folded(path: _Path) -> str:
    return ".".join(path).lower()


def _shown(path: _Path) -> str:
    return cut(".".join(path))
