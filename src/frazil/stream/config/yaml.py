"""YAML into nodes: only the composer is used, so that no value is guessed and every place is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.stream.config.nodes import Items, Kind, Node, Place, Problems, Scalar, Table

_PREFIX = "tag:yaml.org,2002:"
_KINDS: dict[str, Kind] = {
    "str": "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "null": "null",
    "timestamp": "str",
}
_MERGE = f"{_PREFIX}merge"
#: `$${` is an escape; `${` that starts no name is a mistake.
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{[^}]*\}?")
#: Aliases repeat what they name; a file this large was made to fill the memory.
_MOST_NODES = 20_000


def parse(text: str, name: str, environment: Mapping[str, str], problems: Problems) -> Node | None:
    """The root of a file, variables put in; None for a file with nothing in it."""
    yaml = _library()
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(name) if mark is None else _place(name, mark)
        raise InvalidConfig(f"{place.text}: {_syntax(error, text)}") from None
    except yaml.YAMLError as error:
        raise InvalidConfig(f"{name}: {error}") from None
    return None if root is None else _Builder(name, environment, problems).node(root, ())


def _library() -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidConfig(
            "reading pipelines needs PyYAML: install frazil with its extra, 'frazil[stream]'"
        ) from None
    return yaml


def _syntax(error: Any, text: str) -> str:
    words = ", ".join(part for part in (error.context, error.problem) if part)
    line = (
        text.splitlines()[error.problem_mark.line : error.problem_mark.line + 1] if error.problem_mark else []
    )
    hint = "; a ${NAME} inside [ ] or { } must be in quotes" if any("${" in part for part in line) else ""
    return f"not YAML: {words}{hint}"


def _place(name: str, mark: Any) -> Place:
    return Place(f"{name}:{mark.line + 1}:{mark.column + 1}", mark.line + 1, mark.column + 1)


class _Builder:
    def __init__(self, name: str, environment: Mapping[str, str], problems: Problems) -> None:
        self._name = name
        self._environment = environment
        self._problems = problems
        self._count = 0

    def node(self, raw: Any, above: tuple[Any, ...], flow: bool = False) -> Node:
        yaml = _library()
        place = _place(self._name, raw.start_mark)
        self._count += 1
        if any(raw is one for one in above) or self._count > _MOST_NODES:
            raise InvalidConfig(f"{place.text}: an alias (*) contains itself, or aliases repeat too much")
        above = (*above, raw)
        flow = flow or bool(raw.flow_style) if not isinstance(raw, yaml.ScalarNode) else flow
        if isinstance(raw, yaml.SequenceNode):
            return Items(tuple(self.node(item, above, flow) for item in raw.value), place)
        if isinstance(raw, yaml.MappingNode):
            return self._table(raw, place, above, flow)
        return self._scalar(raw, place, flow)

    def _scalar(self, raw: Any, place: Place, flow: bool) -> Scalar:
        kind = _KINDS.get(raw.tag.removeprefix(_PREFIX))
        if kind is None or not raw.tag.startswith(_PREFIX):
            tag = raw.tag.replace(_PREFIX, "!!")
            self._problems.add(place, f"the tag {tag} means nothing here; leave it out")
            kind = "str"
        # The text stays as written: a topic may be named `no` or `3`.
        scalar = Scalar(raw.value, place, kind, flow=flow and raw.style is None)
        return self._substituted(scalar) if "${" in raw.value else scalar

    def _substituted(self, scalar: Scalar) -> Scalar:
        used = False

        def put(match: re.Match[str]) -> str:
            nonlocal used
            if match[0] == "$${":
                return "${"
            if match[1] is None:
                self._problems.add(
                    scalar.place, f"'{match[0]}' names no variable: write ${{NAME}}, or $${{ for the text ${{"
                )
                return ""
            used = True
            value = self._environment.get(match[1])
            if value is None:
                self._problems.add(scalar.place, f"the environment variable {match[1]} is not set")
                return ""
            self._problems.hide(value, match[0])
            return value

        text = _VARIABLE.sub(put, scalar.text)
        return replace(scalar, text=text, kind="str", written=scalar.text if used else None)

    def _table(self, raw: Any, place: Place, above: tuple[Any, ...], flow: bool) -> Table:
        entries: dict[str, tuple[Place, Node]] = {}
        merged: dict[str, tuple[Place, Node]] = {}
        for key, value in raw.value:
            where = _place(self._name, key.start_mark)
            if key.tag == _MERGE:
                merged = self._merged(value, above, flow) | merged
            elif not isinstance(key.value, str) or key.tag == f"{_PREFIX}null":
                self._problems.add(where, "a key must be text")
            elif key.value in entries:
                first = entries[key.value][0]
                self._problems.add(where, f"the key '{key.value}' is there twice, first in line {first.line}")
            else:
                entries[key.value] = where, self.node(value, above, flow)
        return Table({**merged, **entries}, place)

    def _merged(self, value: Any, above: tuple[Any, ...], flow: bool) -> dict[str, tuple[Place, Node]]:
        """`<<: *one` or `<<: [*one, *two]`; of several the first wins."""
        node = self.node(value, above, flow)
        found: dict[str, tuple[Place, Node]] = {}
        for one in reversed(node.items if isinstance(node, Items) else (node,)):
            if isinstance(one, Table):
                found |= one.entries
            else:
                self._problems.add(one.place, "<< takes a mapping, such as << : *name")
        return found
