"""The fenced blocks of a document, with the comment that stands before each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """`note` is the HTML comment on the line before.

    `not run: why` keeps a block from being run; `file: NAME` says that readers save it under that name.
    """

    document: Path
    line: int
    language: str
    text: str
    note: str

    @property
    def skipped(self) -> bool:
        return self.note.startswith("not run: ")

    @property
    def file(self) -> str | None:
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else None

    def __str__(self) -> str:
        return f"{name_of(self.document)}:{self.line}"


def name_of(document: Path) -> str:
    """Two pages may have one name, in different folders."""
    return str(document.relative_to(ROOT))


def blocks(document: Path) -> list[Block]:
    """All fenced blocks, in order."""
    text = document.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        found.append(Block(document, line, match["language"], match["text"], match["note"] or ""))
    return found


def table_after(document: Path, marker: str) -> list[str]:
    """The lines of the table below `<!-- marker -->`."""
    _, found, rest = document.read_text("utf-8").partition(f"<!-- {marker} -->\n")
    assert found, f"{document.name} has no <!-- {marker} -->"
    lines = []
    for line in rest.splitlines():
        if not line.startswith("|"):
            break
        lines.append(line)
    return lines
