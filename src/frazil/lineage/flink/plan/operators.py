"""One operator's text: `[7]:Calc(select=[a, b], where=[(a > 0)])`, `k_out[11]: Writer`, `Source: orders`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.lineage.flink.plan.scanning import Unclear, matching, without_options

_NUMBERED = re.compile(r"\[(\d+)\]:\s*")
_NAMED_NUMBER = re.compile(r"\[(\d+)\](?=$|:|\s)")
_CALL = re.compile(r"(?:Source: |Sink: )?([A-Z][A-Za-z]*)\(")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9#]*)=\[")


@dataclass(frozen=True)
class Operator:
    """An operator as printed: what it is, its number in the SQL plan, and what could be read of the rest."""

    #: Without the options of hints, which may be secret. Attributes have them.
    text: str
    #: `Calc`, `TableSourceScan`, …; empty for an operator that the SQL planner did not describe.
    kind: str = ""
    number: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Why attributes may be missing: the text could not be read to its end.
    unclear: str | None = None
    #: Sources that Flink runs inside this operator's task; they are inputs of it.
    sources: tuple[Operator, ...] = ()


def read_operator(text: str) -> Operator:
    """The operator that a line of a description, or a part of a vertex's name, stands for."""
    text = text.strip()
    numbered = _NUMBERED.match(text)
    number = int(numbered.group(1)) if numbered else None
    body = text[numbered.end() :] if numbered else text
    call = _CALL.match(body)
    if call is None:
        named = _NAMED_NUMBER.search(body)
        number = number if number is not None else named and int(named.group(1))
        return Operator(without_options(body), number=number)
    attributes, unclear, end = _attributes(body, call.end() - 1)
    sources: tuple[Operator, ...] = ()
    if end is not None and body[end:].startswith(" [") and body.endswith("]"):
        sources, unclear = _chained_sources(body[end + 2 : -1])
        body = body[:end]
    shown = without_options(body)
    if unclear is not None and shown != body:
        unclear = f"text that cannot be read: {shown[:80]}"
    return Operator(shown, call.group(1), number, attributes, unclear, sources)


def _attributes(body: str, opening: int) -> tuple[dict[str, str], str | None, int | None]:
    """What stands in the brackets after the kind, why not all of it, and the index after them."""
    attributes: dict[str, str] = {}
    at = opening + 1
    try:
        while (key := _KEY.match(body, at)) is not None:
            end = matching(body, key.end() - 1)
            # A key that is printed twice (`Expand` of some releases) keeps what it said last.
            attributes[key.group(1)] = body[key.end() : end - 1]
            at = end
            if not body.startswith(", ", at):
                break
            at += 2
        end = matching(body, opening)
    except Unclear as error:
        return attributes, str(error), None
    if attributes and at != end - 1:
        return attributes, f"text that belongs to no attribute: {body[at : at + 40]}", end
    return attributes, None, end


def _chained_sources(text: str) -> tuple[tuple[Operator, ...], str | None]:
    """The sources printed in the brackets behind an operator of several inputs."""
    sources: list[Operator] = []
    while text:
        numbered = _NUMBERED.match(text)
        call = _CALL.match(text, numbered.end() if numbered else 0)
        if call is None:
            return tuple(sources), f"a source that cannot be read: {text[:40]}"
        try:
            end = matching(text, call.end() - 1)
        except Unclear as error:
            return tuple(sources), str(error)
        sources.append(read_operator(text[:end]))
        text = text[end:].removeprefix(", ")
    return tuple(sources), None
