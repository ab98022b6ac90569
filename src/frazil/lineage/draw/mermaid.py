"""A picture as a Mermaid flowchart."""

from __future__ import annotations

from frazil.lineage.draw.graph import Box, Picture, Shape
from frazil.lineage.draw.text import printable

_SHAPES = {Shape.DATASET: ('[("', '")]'), Shape.JOB: ('(["', '"])'), Shape.COLUMN: ('["', '"]')}
#: Mermaid reads these in a quoted label; its own escapes are `#` and the character's number.
_SPECIAL = frozenset('"#&<>;`\\[](){}|*_~$@%')


def as_mermaid(picture: Picture) -> str:
    """`flowchart LR` with a node for each box."""
    ids = {box: f"n{index}" for index, box in enumerate(picture.boxes)}
    lines = ["flowchart LR"]
    lines += [f"    {ids[box]}{_label(box)}" for box in picture.boxes]
    for arrow in picture.arrows:
        link = f"-->|{arrow.label}|" if arrow.label else "-->"
        lines.append(f"    {ids[arrow.source]} {link} {ids[arrow.target]}")
    return "\n".join(lines) + "\n"


def _label(box: Box) -> str:
    opening, closing = _SHAPES[box.shape]
    text = "".join(f"#{ord(char)};" if char in _SPECIAL else char for char in printable(box.label))
    return f"{opening}{text}{closing}"
