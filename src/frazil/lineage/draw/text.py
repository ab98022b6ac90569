"""A picture for the terminal: a tree from each box that nothing leads to."""

from __future__ import annotations

import unicodedata

from frazil.lineage.draw.graph import Arrow, Box, Picture, Shape

#: Where less room is left than this, lines are as long as they are.
_NARROWEST = 20
_MARKS = {Shape.DATASET: "", Shape.JOB: "⚙ ", Shape.COLUMN: ""}


def as_text(picture: Picture, width: int | None = None) -> str:
    """Lines; a box that was expanded before is named again, and its branches are not repeated.

    With `width`, what is longer goes on in the next line, inside of its branch.
    """
    targets = picture.targets()
    led_to = {arrow.target for arrow in picture.arrows}
    lines: list[str] = []
    expanded: set[Box] = set()
    starts = [box for box in picture.boxes if box not in led_to]
    for box in [*starts, *picture.boxes]:
        # Past the starts, only circles are left that nothing leads into.
        if box not in expanded:
            _grow(box, targets, expanded, lines, width)
    return "\n".join(lines) + "\n" if lines else ""


def _grow(
    start: Box, targets: dict[Box, list[Arrow]], expanded: set[Box], lines: list[str], width: int | None
) -> None:
    waiting: list[tuple[Box, str, str, str]] = [(start, "", "", "")]
    while waiting:
        box, branch, indent, label = waiting.pop()
        again = box in expanded and bool(targets[box])
        note = f"  ({label})" if label else ""
        text = f"{_MARKS[box.shape]}{printable(box.label)}{note}{'  (see above)' if again else ''}"
        below = "│    " if targets[box] and box not in expanded else "     "
        lines += _folded(branch, f"{indent}{below}", text, width)
        if box in expanded:
            continue
        expanded.add(box)
        arrows = targets[box]
        for index, arrow in reversed(list(enumerate(arrows))):
            last = index == len(arrows) - 1
            waiting.append(
                (
                    arrow.target,
                    f"{indent}{'└─ ' if last else '├─ '}",
                    f"{indent}{'   ' if last else '│  '}",
                    arrow.label,
                )
            )


def _folded(branch: str, below: str, text: str, width: int | None) -> list[str]:
    if width is None or len(branch) + len(text) <= width or width - len(below) < _NARROWEST:
        return [branch + text]
    first, rest = text[: width - len(branch)], text[width - len(branch) :]
    room = width - len(below)
    return [branch + first, *(below + rest[at : at + room] for at in range(0, len(rest), room))]


def printable(label: str) -> str:
    """A label on one line that cannot steer a terminal."""
    return "".join(
        char if unicodedata.category(char)[0] != "C" else char.encode("unicode_escape").decode()
        for char in label
    )
