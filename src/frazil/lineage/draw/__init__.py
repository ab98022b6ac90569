"""Lineage as a picture: in the terminal, as Mermaid, as SVG."""

from frazil.lineage.draw.drawing import Form, draw
from frazil.lineage.draw.selection import select

__all__ = ["Form", "draw", "select"]
