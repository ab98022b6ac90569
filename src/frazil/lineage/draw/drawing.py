"""One way to ask for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from frazil.lineage.draw.graph import columns_picture, tables_picture
from frazil.lineage.draw.mermaid import as_mermaid
from frazil.lineage.draw.selection import select
from frazil.lineage.draw.svg import as_svg
from frazil.lineage.draw.text import as_text
from frazil.lineage.model import JobLineage


class Form(StrEnum):
    """What a picture is made of."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


def draw(
    lineages: Sequence[JobLineage],
    form: Form = Form.TEXT,
    *,
    table: str | None = None,
    column: str | None = None,
    columns: bool = False,
    width: int | None = None,
) -> str:
    """The lineage as text; `width` is that of the terminal, if there is one.

    Tables and jobs are drawn, or columns if one is named or `columns` is true. With `table` the picture has
    what that table came from and what came from it.
    """
    selected = select(lineages, table=table, column=column, columns=columns)
    by_column = columns or column is not None
    picture = columns_picture(selected) if by_column else tables_picture(selected)
    match form:
        case Form.MERMAID:
            return as_mermaid(picture)
        case Form.SVG:
            return as_svg(picture)
    return as_text(picture, width)
