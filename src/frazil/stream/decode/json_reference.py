"""The rules of `frazil.stream.decode.json` in plain Python: the fallback, the judge of the native decoder
in tests, and the one that puts every refusal into words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from frazil.core.schema import ListType, MapType, Schema, SchemaChange, StructType, Type
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode import assemble
from frazil.stream.decode.decoded import Decoded, Fault, Undecodable
from frazil.stream.decode.drift import Drift
from frazil.stream.decode.infer import inferred
from frazil.stream.decode.problem import Problem, cut, mismatch, show
from frazil.stream.decode.scalars import Convert, expected, scalar, wider

#: Objects and arrays that may be open at once, the record itself among them.
MAX_DEPTH = 64
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class _Rules:
    settings: JsonFormat
    contract: Contract
    #: What the schema would need for the record at hand.
    lacking: list[SchemaChange] = field(default_factory=list)


class ReferenceReader:
    """Decodes records one by one."""

    def __init__(
        self,
        schema: Schema,
        format: JsonFormat,  # noqa: A002 - the settings' own word
        contract: Contract,
        reserved: Iterable[str] = (),
    ) -> None:
        self._schema = schema.to_arrow()
        self._rules = _Rules(format, contract)
        self._convert = _struct(StructType(schema.fields), (), self._rules)
        self._drift = Drift(schema, reserved)

    def read(self, values: pa.BinaryArray) -> Decoded:
        rows: list[Any] = []
        bad: list[Undecodable] = []
        drift = self.drift()
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append(self._record(value, drift))
            except Problem as problem:
                bad.append(problem.of(index))
        if drift.changes:
            rows.clear()
        columns = [
            assemble.retyped(pa.array([row.get(field.name) for row in rows], field.type), field.type)
            for field in self._schema
        ]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=self._schema), tuple(bad), drift.changes)

    def drift(self) -> Drift:
        """For one batch."""
        return self._drift.fresh()

    def judge(self, index: int, value: bytes | None, drift: Drift) -> tuple[Undecodable | None, bool]:
        """Why a record is bad, None if it is good; and whether the schema lacks something for it."""
        try:
            self._record(value, drift)
        except Problem as problem:
            return problem.of(index), False
        return None, bool(self._rules.lacking)

    def _record(self, value: bytes | None, drift: Drift) -> Any:
        if not value:
            raise Problem("a record without a value; expected a JSON object", Fault.EMPTY)
        document = _document(value)
        if not isinstance(document, tuple):
            raise Problem(mismatch("a JSON object", document))
        self._rules.lacking.clear()
        row = self._convert(document)
        drift.add(self._rules.lacking)
        return row


def _document(value: bytes) -> Any:
    try:
        whole = value.decode()
    except UnicodeDecodeError as problem:
        raise Problem(f"not UTF-8 text: byte {problem.start + 1} of {len(value)} is wrong") from None
    try:
        document = _JSON.decode(whole)
    except json.JSONDecodeError as problem:
        what = problem.msg.split(" (")[0].replace("Expecting", "expected").replace("Extra", "extra")
        raise Problem(
            f"not JSON: {what} at character {problem.pos + 1} of {cut(whole)}; expected one JSON object"
        ) from None
    except RecursionError:
        raise Problem(_TOO_DEEP) from None
    if whole.count("[") + whole.count("{") > MAX_DEPTH:
        _check_depth(document, 1)
    if "\\u" in whole:
        _check_text(document)
    return document


_TOO_DEEP = f"objects and arrays are nested more than {MAX_DEPTH} deep"


def _check_depth(value: Any, depth: int) -> None:
    if not isinstance(value, list | tuple):
        return
    if depth > MAX_DEPTH:
        raise Problem(_TOO_DEEP)
    for item in value:
        _check_depth(item[1] if isinstance(value, tuple) else item, depth + 1)


def _check_text(value: Any) -> None:
    """Half a surrogate pair, written as an escape, is no character."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= mark <= "\udfff" for mark in value):
            raise Problem("an escape \\ud800 to \\udfff without its other half; expected surrogates in pairs")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)


def _constant(word: str) -> NoReturn:
    raise Problem(f"{word} is no JSON number; expected digits")


#: Objects become tuples of pairs, arrays lists, and numbers bytes: their digits as they stood.
_JSON = json.JSONDecoder(
    object_pairs_hook=tuple,
    parse_int=str.encode,
    parse_float=str.encode,
    parse_constant=_constant,
    strict=True,
)


def _struct(kind: StructType, path: _Path, rules: _Rules) -> Convert:
    converts = {
        field.name: _convert(field.type, field.required, (*path, field.name), rules) for field in kind.fields
    }
    required = [field.name for field in kind.fields if field.required]
    unknown = _unknown(path, rules)

    def convert(value: Any) -> Any:
        if not isinstance(value, tuple):
            return None
        row: dict[str, Any] = {}
        more: set[str] = set()
        name = ""
        try:
            for name, item in value:
                if name in converts:
                    if name in row:
                        raise Problem("stands twice in its object; expected once")
                    row[name] = converts[name](item)
                elif unknown is not None:
                    unknown(name, item, more)
        except Problem as problem:
            raise problem.within(name) from None
        for name in required:
            if name not in row:
                raise Problem("is missing, and its column is required", Fault.MISSING).within(name)
        return row

    return convert


def _unknown(path: _Path, rules: _Rules) -> Callable[[str, Any, set[str]], None] | None:
    """What is done about a field that no column has; None: nothing."""
    if rules.contract.columns == "discard_value":
        return None

    def refuse(name: str, item: Any, more: set[str]) -> None:
        raise Problem(
            f"no column has this field ({show(item)}), and the contract for columns is "
            f"`{rules.contract.columns}`; add the column to the schema, or set `evolve` or `discard_value`",
            Fault.UNKNOWN_FIELD,
        )

    def note(name: str, item: Any, more: set[str]) -> None:
        kind = inferred(item)
        if kind is None:
            return
        if name in more:
            raise Problem("stands twice in its object; expected once")
        more.add(name)
        rules.lacking.append(SchemaChange((*path, name), kind))

    return note if rules.contract.columns == "evolve" else refuse


def _list(kind: ListType, path: _Path, rules: _Rules) -> Convert:
    element = _convert(kind.element, kind.element_required, (*path, "element"), rules)

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            return None
        return [_inside(element, item, f"[{index}]") for index, item in enumerate(value)]

    return convert


def _map(kind: MapType, path: _Path, rules: _Rules) -> Convert:
    entry = _convert(kind.value, kind.value_required, (*path, "value"), rules)

    def convert(value: Any) -> Any:
        if not isinstance(value, tuple):
            return None
        items = [(key, _inside(entry, item, f"[{show(key)}]")) for key, item in value]
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                raise Problem("stands twice in its map; expected once").within(f"[{show(key)}]")
            seen.add(key)
        return items

    return convert


def _inside(convert: Convert, value: Any, step: str) -> Any:
    try:
        return convert(value)
    except Problem as problem:
        raise problem.within(step) from None


def _convert(kind: Type, required: bool, path: _Path, rules: _Rules) -> Convert:
    read = _present(kind, path, rules)
    misfit = _misfit(kind, required, path, rules)

    def convert(value: Any) -> Any:
        if value is None:
            if required:
                wanted = expected(kind, rules.settings)
                raise Problem(f"is null, and its column is required; expected {wanted}", Fault.MISSING)
            return None
        found = read(value)
        return misfit(value) if found is None else found

    if required or isinstance(kind, str) or rules.contract.types != "discard_value":
        return convert
    return _leaving_out(convert, rules)


def _leaving_out(convert: Convert, rules: _Rules) -> Convert:
    """For an optional column with others inside: nothing, if one of those has to be left out but cannot."""

    def lenient(value: Any) -> Any:
        before = len(rules.lacking)
        try:
            return convert(value)
        except Problem as problem:
            if not problem.loose:
                raise
            del rules.lacking[before:]
            return None

    return lenient


def _misfit(kind: Type, required: bool, path: _Path, rules: _Rules) -> Convert:
    """What is done about a value that does not fit."""
    word = rules.contract.types

    def misfit(value: Any) -> None:
        if word == "discard_value" and not required:
            return
        if word == "evolve" and isinstance(kind, str):
            found = wider(kind, value, rules.settings)
            if found is not None:
                rules.lacking.append(SchemaChange(path, found, widens=True))
                return
        loose = word == "discard_value"
        reason = mismatch(expected(kind, rules.settings), value)
        raise Problem(reason, Fault.MISSING if loose else Fault.TYPE, loose=loose)

    return misfit


def _present(kind: Type, path: _Path, rules: _Rules) -> Convert:
    """What reads a value that is not null; None from it says that the value does not fit."""
    if isinstance(kind, StructType):
        return _struct(kind, path, rules)
    if isinstance(kind, ListType):
        return _list(kind, path, rules)
    if isinstance(kind, MapType):
        return _map(kind, path, rules)
    return scalar(kind, rules.settings)
