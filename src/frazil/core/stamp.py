"""The stamp: what a pipeline's commit says about itself, and the only checkpoint there is.

It lies in the summary of the snapshot under `frazil.stamp.<pipeline>`; the same text, with the id of that
snapshot, is mirrored in a table property of that name, and the tag `frazil-<pipeline>` points at it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Self

import msgspec

from frazil.core.errors import InvalidConfig, InvalidInput

STAMP_VERSION = 1
_HISTORY_TAG = "frazil-history."
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")


def check_pipeline_name(name: str) -> str:
    """The name, if it is fit for file names, tags and properties."""
    if _NAME.fullmatch(name) is None:
        raise InvalidConfig(
            f"'{name}' cannot name a pipeline: use 1 to 63 of a-z, 0-9, - and _, no - or _ at the ends"
        )
    return name


def stamp_key(pipeline: str) -> str:
    """Where the stamp of a pipeline lies, in a snapshot's summary and among the table's properties."""
    return f"frazil.stamp.{pipeline}"


def epoch_key(pipeline: str) -> str:
    """The table property with the last epoch of a writer that has left: no later one may have it again."""
    return f"frazil.epoch.{pipeline}"


def stamp_tag(pipeline: str) -> str:
    """The tag that keeps the newest stamped snapshot from expiring."""
    return f"frazil-{pipeline}"


def history_tag(pipeline: str) -> str:
    """The tag on the snapshot of another table with which a pipeline begins, until it has all of its rows.

    No pipeline's name has a dot: it is no tag of a stamp.
    """
    return f"{_HISTORY_TAG}{pipeline}"


def is_history_tag(name: str) -> bool:
    return name.startswith(_HISTORY_TAG)


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one stream of a source (a Kafka topic) was read: the next offset of each partition."""

    #: The stream's identity; a topic that was deleted and made again has another one.
    id: str
    next: tuple[int, ...]
    #: What else the source needs to go on from there; its own affair.
    state: str = ""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The highest change of one partition, in the order in which its database committed them."""

    #: What the numbers count, such as `lsn` or `binlog:7`: those of different lines cannot be compared.
    line: str
    #: Commit order, as `frazil.core.changes` makes it.
    at: tuple[int, int, int]
    #: When the database made the youngest change so far, milliseconds since 1970: not always this one, as
    #: some tell when a statement began.
    ts: int


class Stamp(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One commit of one pipeline."""

    #: Always written: a later version must not take its own number for the one that was left out.
    v: int = msgspec.field(default_factory=lambda: STAMP_VERSION)
    pipeline: str
    #: Counts the writers of this pipeline; the newest one wins.
    epoch: int
    #: Counts the commits of that writer, its claim being 0.
    round: int
    #: Made for this commit alone: finding it in the table proves that the commit landed.
    token: str
    #: The source's identity, such as `kafka:<cluster id>`.
    source: str
    positions: dict[str, Position]
    #: Records taken from the log and rows written, since the pipeline was first claimed or reset.
    read: int = 0
    written: int = 0
    #: Highest event time (microseconds since 1970) below which nothing is expected any more.
    watermark: int | None = None
    #: Hash of the configuration that wrote this.
    config: str = ""
    #: Of a stateful query: its id and the last batch that landed.
    query: str | None = None
    batch: int | None = None
    #: Of change data: the highest change applied, by topic and partition (None: there was none).
    marks: dict[str, tuple[Mark | None, ...]] = {}
    #: The last truncate applied, by topic: what any partition has from before it is void.
    floors: dict[str, Mark] = {}
    #: Which life of the source the marks are of; raised by the user after it was restored or replaced.
    incarnation: int = 0

    def encode(self) -> str:
        """Compact JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """A stamp from a summary; InvalidInput for one that this version cannot read."""
        try:
            version = msgspec.json.decode(text, type=_Version).v
            if version > STAMP_VERSION:
                raise InvalidInput(
                    f"the stamp is of version {version}, this frazil reads {STAMP_VERSION}: upgrade frazil"
                )
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"a damaged stamp in the table ({error}): {text[:200]}") from None


class Mirror(msgspec.Struct, frozen=True):
    """The table property: the newest stamp and the snapshot that carries it."""

    snapshot_id: int
    stamp: Stamp

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"a damaged stamp property ({error}): {text[:200]}") from None


class _Version(msgspec.Struct):
    v: int = 1


def config_hash(document: object) -> str:
    """A short hash of a configuration, the same for the same content."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]
