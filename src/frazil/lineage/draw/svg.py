"""A picture as an SVG document that needs nothing but itself."""

from __future__ import annotations

import re
from html import escape

from frazil.lineage.draw.graph import Arrow, Box, Picture, Shape
from frazil.lineage.draw.layout import COLUMN_GAP, HEIGHT, MARGIN, Layout, lay_out
from frazil.lineage.draw.text import printable

_PADDING = 12
_CHARACTER = 7.3
_LONGEST = 60
_FILLS = {Shape.DATASET: "#e3f0fa", Shape.JOB: "#f6ecd9", Shape.COLUMN: "#eef6e6"}
_ROUND = {Shape.DATASET: 4, Shape.JOB: 15, Shape.COLUMN: 4}
#: Lines tell by their look what a label would say, for labels of lines that cross cannot be read.
_STROKES = {
    "transformation": ' stroke-dasharray="7 3"',
    "aggregation": ' stroke-dasharray="2 2.5" stroke-width="2.2"',
}
#: How far an arrow that leads back goes beside its boxes; less than the margin, to stay in the picture.
_TURN = 20
_LEGEND_LINE, _LEGEND_WIDTH, _LEGEND_HEIGHT = 36, 160, 24
#: Characters that XML 1.0 does not allow, even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_svg(picture: Picture) -> str:
    """Boxes in columns from left to right, arrows between them."""
    layout = lay_out(picture, lambda box: len(_text(box)) * _CHARACTER + 2 * _PADDING)
    legend = _legend(picture, layout.height)
    width, height = layout.width, layout.height
    if legend:
        width, height = max(width, len(legend) * _LEGEND_WIDTH + MARGIN), height + _LEGEND_HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" font-family="monospace" font-size="12">'
    )
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8Z" fill="#555"/></marker></defs>'
    )
    lines = [head, marker, f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>']
    lines += [_arrow(arrow, layout) for arrow in picture.arrows]
    lines += [_box(box, layout) for box in picture.boxes]
    return "\n".join([*lines, *legend, "</svg>"]) + "\n"


def _text(box: Box) -> str:
    """What fits; the end of a name tells more than its middle."""
    label = _NOT_XML.sub("\ufffd", printable(box.label))
    half = _LONGEST // 2
    return label if len(label) <= _LONGEST else f"{label[: half - 1]}…{label[-half:]}"


def _box(box: Box, layout: Layout) -> str:
    left, middle, width = layout.boxes[box]
    label = escape(_NOT_XML.sub("\ufffd", printable(box.label)))
    return (
        f'<g><title>{label}</title><rect x="{left:g}" y="{middle - HEIGHT / 2:g}" width="{width:g}"'
        f' height="{HEIGHT}" rx="{_ROUND[box.shape]}" fill="{_FILLS[box.shape]}" stroke="#555"/>'
        f'<text x="{left + _PADDING:g}" y="{middle + 4:g}">{escape(_text(box))}</text></g>'
    )


def _arrow(arrow: Arrow, layout: Layout) -> str:
    path = _ahead(arrow, layout) if arrow in layout.ways else _back(arrow, layout)
    title = f"<title>{escape(arrow.label)}</title>" if arrow.label else ""
    look = f'fill="none" stroke="#555"{_STROKES.get(arrow.label, "")}'
    return f'<path d="{path}" {look} marker-end="url(#tip)">{title}</path>'


def _ahead(arrow: Arrow, layout: Layout) -> str:
    """Curves between columns, straight lines through the gaps in them."""
    (x, y), *rest = layout.ways[arrow]
    path, bend = f"M{x:g} {y:g}", COLUMN_GAP / 2
    for number, (to, at) in enumerate(rest):
        path += f"H{to:g}" if number % 2 else f"C{x + bend:g} {y:g} {to - bend:g} {at:g} {to:g} {at:g}"
        x, y = to, at
    return path


def _back(arrow: Arrow, layout: Layout) -> str:
    """Down on the right of the one box, back below everything, up on the left of the other."""
    left, start, width = layout.boxes[arrow.source]
    end, target, _ = layout.boxes[arrow.target]
    right, below = left + width, layout.below[arrow]
    down = f"C{right + _TURN:g} {start:g} {right + _TURN:g} {below:g} {right:g} {below:g}"
    up = f"C{end - _TURN:g} {below:g} {end - _TURN:g} {target:g} {end:g} {target:g}"
    return f"M{right:g} {start:g}{down}H{end:g}{up}"


def _legend(picture: Picture, top: float) -> list[str]:
    """What the looks of lines mean, as far as the picture has them."""
    used = {arrow.label for arrow in picture.arrows}
    found = []
    for number, label in enumerate(label for label in _STROKES if label in used):
        left = MARGIN + number * _LEGEND_WIDTH
        line = f'<path d="M{left} {top:g}h{_LEGEND_LINE}" fill="none" stroke="#555"{_STROKES[label]}/>'
        text = f'<text x="{left + _LEGEND_LINE + 8}" y="{top + 4:g}" fill="#555">{label}</text>'
        found.append(line + text)
    return found
