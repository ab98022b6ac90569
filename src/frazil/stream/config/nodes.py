"""What was written, with its place: a YAML file and Python keywords both become these nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from frazil.core.errors import InvalidConfig

Kind: TypeAlias = Literal["str", "int", "float", "bool", "null"]
_SHOWN = 20
#: Shorter values of variables are not looked for in messages: they would be found in any word.
_SCRUBBED = 3


@dataclass(frozen=True)
class Place:
    """`pipelines.yaml:14:5`, or the keyword of a call."""

    text: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Scalar:
    text: str = field(repr=False)
    place: Place
    kind: Kind = "str"
    #: What stands in the file where a variable was put in: the text is then not for showing.
    written: str | None = None
    #: Inside [ ] or { }, where a comma ends a value.
    flow: bool = False


@dataclass(frozen=True)
class Items:
    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class Table:
    """A mapping; the place of each key beside its value."""

    entries: Mapping[str, tuple[Place, Node]]
    place: Place


@dataclass(frozen=True)
class Function:
    """Only from Python."""

    function: Any
    place: Place


Node: TypeAlias = Scalar | Items | Table | Function


def kind_of(node: Node) -> str:
    """What somebody would call it."""
    if isinstance(node, Scalar):
        return {"int": "a number", "float": "a number", "bool": "a truth value", "null": "nothing"}.get(
            node.kind, "text"
        )
    if isinstance(node, Items):
        return "a list"
    return "a mapping" if isinstance(node, Table) else "a function"


class Problems:
    """All that is wrong with one configuration, told at once: one problem for each place."""

    def __init__(self) -> None:
        self._found: dict[Place, str] = {}
        self._variables: dict[str, str] = {}

    def add(self, place: Place, message: str) -> None:
        self._found.setdefault(place, message)

    def hide(self, value: str, written: str) -> None:
        """The value of a variable, which no message may show."""
        if len(value) >= _SCRUBBED:
            self._variables[value] = written

    def __len__(self) -> int:
        return len(self._found)

    def check(self) -> None:
        """Raise InvalidConfig if there was any problem."""
        if not self._found:
            return
        ordered = sorted(self._found.items(), key=lambda item: (item[0].line, item[0].column))
        lines = [f"{place.text}: {self._scrub(message)}" for place, message in ordered[:_SHOWN]]
        if len(ordered) > _SHOWN:
            lines.append(f"… and {len(ordered) - _SHOWN} more problems")
        raise InvalidConfig("\n".join(lines))

    def _scrub(self, message: str) -> str:
        for value in sorted(self._variables, key=len, reverse=True):
            message = message.replace(value, self._variables[value])
        return message
