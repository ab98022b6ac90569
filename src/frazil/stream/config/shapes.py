"""The language in which the keys of a pipeline are described: one description reads, checks and publishes.

A shape reads a node into a value, noting problems, and gives its own JSON schema. What cannot be read is
`WRONG`, so that the rest of the file is still checked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, Protocol

from frazil.core.errors import InvalidInput
from frazil.stream.config.nodes import Function, Items, Node, Place, Problems, Scalar, Table, kind_of


class _Wrong:
    def __repr__(self) -> str:
        return "WRONG"


WRONG: Final = _Wrong()
JsonSchema = dict[str, Any]
_TRUE = re.compile(r"(?i:yes|true|on)")


class Shape(Protocol):
    def read(self, node: Node, problems: Problems, where: str) -> Any: ...

    def schema(self) -> JsonSchema: ...


@dataclass(frozen=True)
class Found:
    """What a record held: values that could be read, and the nodes of all."""

    values: Mapping[str, Any]
    nodes: Mapping[str, Node]
    place: Place

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def place_of(self, key: str) -> Place:
        return self.nodes[key].place if key in self.nodes else self.place


@dataclass(frozen=True)
class Text:
    """A scalar, read by `parse`; `legal` finishes the sentence "write …"."""

    legal: str
    parse: Callable[[str], Any] = str
    pattern: str | None = None
    words: tuple[str, ...] = ()

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if not isinstance(node, Scalar) or node.kind == "null":
            problems.add(node.place, f"{where} is {kind_of(node)}; write {self.legal}")
            return WRONG
        if self.words and node.text not in self.words:
            near = difflib.get_close_matches(node.text, self.words, 1) if node.written is None else []
            hint = f"; did you mean '{near[0]}'?" if near else "."
            problems.add(node.place, f"{where}: {_shown(node)} is not legal{hint} Legal: {self.legal}")
            return WRONG
        try:
            return self.parse(node.text)
        except InvalidInput as error:
            said = error.message if node.written is None else f"{node.written} does not give {self.legal}"
            problems.add(node.place, f"{where}: {said}{_comma(node)}")
            return WRONG

    def schema(self) -> JsonSchema:
        found: JsonSchema = {"type": "string"}
        if self.pattern is not None:
            found["pattern"] = f"{self.pattern}|\\$\\{{"
        if self.words:
            found = {"enum": list(self.words)}
        return found


def _shown(node: Scalar) -> str:
    return node.written if node.written is not None else f"'{node.text}'"


def _comma(node: Scalar) -> str:
    """The likely reason for half a type or half a partition field."""
    text = node.written or node.text
    if node.flow and any(text.count(a) != text.count(b) for a, b in ("()", "<>", "[]")):
        return ". Inside [ ] or { } a comma ends a value: put it in quotes"
    return ""


@dataclass(frozen=True)
class Count:
    """A whole number."""

    least: int = 1
    words: tuple[int, ...] = ()

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        legal = (
            f"one of {', '.join(map(str, self.words))}"
            if self.words
            else f"a whole number, {self.least} or more"
        )
        plain = isinstance(node, Scalar) and (node.kind == "int" or node.written is not None)
        digits = node.text.replace("_", "") if plain and isinstance(node, Scalar) else ""
        if not digits.isascii() or not digits.isdigit():
            shown = _shown(node) if isinstance(node, Scalar) and node.kind != "null" else kind_of(node)
            problems.add(node.place, f"{where} is {shown}; write {legal}")
            return WRONG
        number = int(digits)
        if number < self.least or (self.words and number not in self.words):
            problems.add(node.place, f"{where} is {number}; write {legal}")
            return WRONG
        return number

    def schema(self) -> JsonSchema:
        return {"enum": list(self.words)} if self.words else {"type": "integer", "minimum": self.least}


@dataclass(frozen=True)
class Truth:
    """true or false."""

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if not isinstance(node, Scalar) or node.kind != "bool":
            problems.add(node.place, f"{where}: write true or false")
            return WRONG
        return _TRUE.fullmatch(node.text) is not None

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Setting:
    """A setting of another program, which takes text: numbers stay as written, `yes` becomes `true`."""

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if not isinstance(node, Scalar) or node.kind == "null":
            problems.add(node.place, f"{where} is {kind_of(node)}; write text, a number, true or false")
            return WRONG
        if node.kind == "bool":
            return "true" if _TRUE.fullmatch(node.text) else "false"
        return node.text

    def schema(self) -> JsonSchema:
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True)
class ListOf:
    """A list; with `alone`, a single item may stand without it."""

    item: Text | Count
    alone: bool = False
    #: `[bucket(16, id)]` is two items for YAML; they are put together again.
    rejoin: bool = False

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if self.alone and isinstance(node, Scalar):
            node = Items((node,), node.place)
        if not isinstance(node, Items):
            problems.add(node.place, f"{where} is {kind_of(node)}; write a list")
            return WRONG
        items = _rejoined(node.items) if self.rejoin else node.items
        found = [self.item.read(item, problems, where) for item in items]
        return WRONG if WRONG in found else tuple(found)

    def schema(self) -> JsonSchema:
        item = {"type": "string"} if self.rejoin else self.item.schema()
        found: JsonSchema = {"type": "array", "items": item}
        return {"anyOf": [self.item.schema(), found]} if self.alone else found


def _rejoined(items: tuple[Node, ...]) -> tuple[Node, ...]:
    found: list[Node] = []
    for item in items:
        last = found[-1] if found else None
        if (
            isinstance(last, Scalar)
            and isinstance(item, Scalar)
            and last.flow
            and last.text.count("(") > last.text.count(")")
        ):
            found[-1] = Scalar(f"{last.text}, {item.text}", last.place, "str", last.written, last.flow)
        else:
            found.append(item)
    return tuple(found)


@dataclass(frozen=True)
class MapOf:
    """Names that the user chooses, all with values of one shape."""

    value: Shape
    #: What a key is, for messages.
    what: str
    #: Gives the reason why a key is refused, or None.
    refuse: Callable[[str], str | None] = lambda _: None
    #: For the published schema.
    refused: tuple[str, ...] = ()
    about: str = ""

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if not isinstance(node, Table):
            problems.add(node.place, f"{where} is {kind_of(node)}; write a mapping of {self.what}s")
            return WRONG
        values: dict[str, Any] = {}
        for key, (place, inner) in node.entries.items():
            reason = self.refuse(key)
            if reason is not None:
                problems.add(place, reason)
                continue
            value = self.value.read(inner, problems, f"{self.what} '{key}'")
            if value is not WRONG:
                values[key] = value
        return Found(values, {key: inner for key, (_, inner) in node.entries.items()}, node.place)

    def schema(self) -> JsonSchema:
        found: JsonSchema = {"type": "object", "additionalProperties": self.value.schema()}
        if self.about:
            found["additionalProperties"] |= {"description": self.about}
        if self.refused:
            found["propertyNames"] = {"not": {"enum": list(self.refused)}}
        return found


@dataclass(frozen=True)
class Key:
    """One key of a record; `default` is for people."""

    shape: Shape
    about: str
    default: str | None = None
    #: Must be there: in the record itself, or (`needed`) after the defaults were put under it.
    required: bool = False
    needed: bool = False


@dataclass(frozen=True)
class Record:
    """A mapping with known keys."""

    keys: Mapping[str, Key]
    #: Of these, exactly one is needed.
    one_of: tuple[str, ...] = ()
    partial: bool = False

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if not isinstance(node, Table):
            problems.add(node.place, f"{where} is {kind_of(node)}; write a mapping with {self._legal()}")
            return WRONG
        values: dict[str, Any] = {}
        for key, (place, inner) in node.entries.items():
            if key not in self.keys:
                problems.add(place, unknown(key, self.keys, "key", f" in {where}"))
                continue
            value = self.keys[key].shape.read(inner, problems, _inside(key, where, self.keys[key].shape))
            if value is not WRONG:
                values[key] = value
        self._check_presence(node, problems, where)
        return Found(values, {key: inner for key, (_, inner) in node.entries.items()}, node.place)

    def _check_presence(self, node: Table, problems: Problems, where: str) -> None:
        # One that is there misspelt was told already.
        misspelt = [key for key in node.entries if key not in self.keys]
        meant = {near for key in misspelt for near in difflib.get_close_matches(key, self.keys, 1)}
        there = {*node.entries, *meant}
        missing = [
            f"'{key}'"
            for key, spec in self.keys.items()
            if (spec.required or (spec.needed and not self.partial)) and key not in there
        ]
        chosen = [key for key in self.one_of if key in node.entries]
        if self.one_of and there.isdisjoint(self.one_of) and not self.partial:
            missing.append(" or ".join(f"'{key}'" for key in self.one_of))
        if missing:
            problems.add(node.place, f"{where} lacks {', '.join(missing)}")
        if len(chosen) > 1:
            place = node.entries[chosen[1]][0]
            problems.add(place, f"{where} has '{chosen[0]}' and '{chosen[1]}'; only one of them can be")

    def _legal(self) -> str:
        return ", ".join(self.keys)

    def schema(self) -> JsonSchema:
        properties = {}
        for key, spec in self.keys.items():
            about = spec.about + (f" Default: {spec.default}." if spec.default else "")
            properties[key] = {"description": about, **spec.shape.schema()}
        found: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [key for key, spec in self.keys.items() if spec.required]
        if required:
            found["required"] = required
        pairs = [{"not": {"required": list(pair)}} for pair in combinations(self.one_of, 2)]
        if pairs:
            found["allOf"] = pairs
        return found

    def completeness(self) -> JsonSchema:
        """What must be there when there are no defaults to give it."""
        inner = {
            key: spec.shape.completeness()
            for key, spec in self.keys.items()
            if isinstance(spec.shape, Record) and spec.shape.completeness()
        }
        found: JsonSchema = {"properties": inner} if inner else {}
        needed = [key for key, spec in self.keys.items() if spec.needed]
        if needed:
            found["required"] = needed
        if self.one_of:
            found["anyOf"] = [{"required": [key]} for key in self.one_of]
        return found

    def without_needs(self) -> Record:
        """The same for `defaults`: nothing need be there."""
        keys = {
            key: Key(
                spec.shape.without_needs() if isinstance(spec.shape, Record) else spec.shape,
                spec.about,
                spec.default,
                spec.required,
                spec.needed,
            )
            for key, spec in self.keys.items()
        }
        return Record(keys, self.one_of, partial=True)


def unknown(key: str, legal: Iterable[str], what: str, where: str = "") -> str:
    """For a name that is none of the legal ones."""
    legal = list(legal)
    near = difflib.get_close_matches(key, legal, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ";"
    return f"unknown {what} '{key}'{where}{hint} legal here: {', '.join(legal)}"


def _inside(key: str, where: str, shape: Shape) -> str:
    """How messages name what stands under a key."""
    if isinstance(shape, Record | MapOf):
        return key if where == "the file" else f"{key} of {where}"
    return key


@dataclass(frozen=True)
class Either:
    """One shape for a scalar, another for a list, another for a mapping."""

    scalar: Shape | None = None
    items: Shape | None = None
    table: Shape | None = None
    legal: str = field(default="", kw_only=True)
    #: A Python function is taken as it is.
    functions: bool = field(default=False, kw_only=True)

    def read(self, node: Node, problems: Problems, where: str) -> Any:
        if self.functions and isinstance(node, Function):
            return node.function
        shape = (
            self.scalar
            if isinstance(node, Scalar)
            else self.items
            if isinstance(node, Items)
            else self.table
            if isinstance(node, Table)
            else None
        )
        if shape is None or (isinstance(node, Scalar) and node.kind == "null"):
            problems.add(node.place, f"{where} is {kind_of(node)}; write {self.legal}")
            return WRONG
        return shape.read(node, problems, where)

    def schema(self) -> JsonSchema:
        return {"anyOf": [shape.schema() for shape in (self.scalar, self.items, self.table) if shape]}


def merged(shape: Shape, base: Node, over: Node) -> Node:
    """`over` with the defaults of `base` under it: records and settings key by key, all else as a whole."""
    if not (isinstance(base, Table) and isinstance(over, Table) and isinstance(shape, Record | MapOf)):
        return over
    entries = dict(base.entries)
    if isinstance(shape, Record) and any(key in over.entries for key in shape.one_of):
        entries = {key: entry for key, entry in entries.items() if key not in shape.one_of}
    for key, (place, node) in over.entries.items():
        inner = shape.keys.get(key) if isinstance(shape, Record) else None
        if inner is not None and key in entries:
            node = merged(inner.shape, entries[key][1], node)
        entries[key] = place, node
    return Table(entries, over.place)
