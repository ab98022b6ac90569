"""Corrections: what a snapshot and a branch say about the range of a table that was computed again.

The record lies in the summary of the snapshot under `frazil.correction`, on its branch and, once it is
published, in main; the recipe lies beside it. There is no other register of corrections.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Self, TypeVar

import msgspec

from frazil.core.errors import InvalidInput

#: In the summary of a snapshot: it corrects rows that were there, and is no news.
CORRECTION = "frazil.correction"
#: Beside it: how its rows are computed.
RECIPE = "frazil.correction.recipe"
CORRECTION_VERSION = 1
_BRANCHES = "frazil-correction-"
_ID = re.compile(r"[0-9a-f]{8}")
T = TypeVar("T", bound="Correction | Recipe")


def new_id() -> str:
    return secrets.token_hex(4)


def correction_branch(correction_id: str) -> str:
    """The branch of a correction that is not published; InvalidInput: that is no id."""
    if _ID.fullmatch(correction_id) is None:
        raise InvalidInput(
            f"'{correction_id}' is no id of a correction: they have 8 digits of 0-9 and a-f, as `frazil "
            "correct list` shows them"
        )
    return f"{_BRANCHES}{correction_id}"


def correction_of(branch: str) -> str | None:
    """The id in the name of a branch; None: it is no correction's."""
    found = branch.removeprefix(_BRANCHES)
    return found if found != branch and _ID.fullmatch(found) else None


class Correction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What change streams see of it, compact."""

    v: int = msgspec.field(default_factory=lambda: CORRECTION_VERSION)
    id: str
    #: The rows that it replaces, as they were asked for: a predicate, or offsets of a log.
    range: str
    #: The snapshot of main that it began with.
    fork: int

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        return _decoded(cls, text)

    @classmethod
    def told(cls, summary: Mapping[str, str]) -> Self | None:
        """What a snapshot says; None: it is none, or one that another tool called so."""
        text = summary.get(CORRECTION)
        try:
            return None if text is None else cls.decode(text)
        except InvalidInput:
            return None


class Recipe(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the rows of a range are computed; kept with the branch, to do it again."""

    v: int = msgspec.field(default_factory=lambda: CORRECTION_VERSION)
    #: A predicate over the table's columns, and the query for its rows, both in Spark's SQL.
    where: str = ""
    sql: str = ""
    #: Other hot tables that the query names are read with the tails of their logs.
    fresh: bool = False
    #: Of the session: what times without a zone are in, of the range and of the query.
    zone: str = ""
    #: Instead of both: offsets of the log, by topic and partition, and the pipeline that reads them.
    offsets: dict[str, dict[int, tuple[int, int]]] = {}
    pipeline: str = ""

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        return _decoded(cls, text)

    @property
    def range(self) -> str:
        """The rows, as somebody would ask for them."""
        return self.where or show_offsets(self.offsets)


def show_offsets(offsets: Mapping[str, Mapping[int, tuple[int, int]]]) -> str:
    """
    >>> show_offsets({"orders": {0: (5, 9), 1: (0, 3)}})
    'orders=0:5-9,1:0-3'
    """
    return " ".join(
        f"{topic}={','.join(f'{number}:{first}-{end}' for number, (first, end) in sorted(parts.items()))}"
        for topic, parts in sorted(offsets.items())
    )


def _decoded(kind: type[T], text: str) -> T:
    try:
        found = msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"this is no record of a correction ({error}): {text[:200]}") from None
    version: int = found.v
    if version > CORRECTION_VERSION:
        raise InvalidInput(
            f"the correction is of version {version}, this frazil reads {CORRECTION_VERSION}: upgrade frazil"
        )
    return found
