"""The log against the table: is every record in it once?

What cannot be known (trimmed records, expired snapshots, another topic) is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from frazil.client import Client, Renewing
from frazil.core.errors import FrazilError, HistoryChanged, NoSuchTable, Unsupported
from frazil.core.names import show
from frazil.core.stamp import Stamp
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.lake.catalog import Lake
from frazil.lake.credentials import TaskKeys
from frazil.lake.scan import LiveFile, live_files
from frazil.lake.table import LakeTable
from frazil.stream.bootstrap.place import of_log
from frazil.stream.columns import with_columns
from frazil.stream.config.model import KafkaSource, PipelineConfig
from frazil.stream.decoding import Reading
from frazil.stream.feeds import feed_of
from frazil.stream.fingerprint import Fingerprint
from frazil.stream.fit import followed, problems
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import KafkaLog, LogView, kafka_source
from frazil.stream.rounds import cut
from frazil.stream.verify_range import Span, Spans, find_spans
from frazil.stream.verify_tasks import Counted, count_files, count_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A task of the log is small enough to be run again.
_PER_TASK = 2_000_000
_KEY_MARGIN = 1800.0
_SHOWN = 5


class Verdict(StrEnum):
    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "cannot be known"


@dataclass(frozen=True)
class Check:
    """One comparison: `log`, `commits`, `rows` or `content`."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class PartitionRange:
    """What was read of one partition, and what the log holds of that now."""

    topic: str
    partition: int
    #: What is compared.
    first: int
    next: int
    #: None: the log was not read.
    records: int | None
    #: Offsets before `first` that the pipeline read, and those of them that the log does not have any more.
    not_compared: int = 0
    trimmed: int = 0

    @property
    def without_record(self) -> int | None:
        """Transaction markers, aborted and compacted records."""
        return None if self.records is None else self.next - self.first - self.records


@dataclass(frozen=True)
class Verification:
    pipeline: str
    table: str
    stamp: Stamp | None = None
    partitions: tuple[PartitionRange, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        verdicts = {check.verdict for check in self.checks}
        for found in (Verdict.WRONG, Verdict.UNKNOWN):
            if found in verdicts:
                return found
        return Verdict.OK


def verify(
    config: PipelineConfig, spark: SparkSession, client: Client, say: Callable[[str], None] = lambda _: None
) -> Verification:
    """Compare. What is wrong is part of the answer, not an error."""
    kafka_source(config, "verify")
    if config.table.routed:
        raise Unsupported(f"pipeline '{config.name}' writes many tables: verify compares one table")
    where = (config.table.namespace, config.table.name)
    found = Verification(config.name, show(*where))
    try:
        metadata = client.tables.load(*where).metadata
        stamp = find_stamp(MetadataHistory(metadata), config.name)
    except (NoSuchTable, HistoryChanged) as error:
        return replace(found, checks=(Check("commits", Verdict.UNKNOWN, error.message),))
    if stamp is None:
        told = Check("commits", Verdict.UNKNOWN, "the pipeline has not written to this table yet")
        return replace(found, checks=(told,))
    return _Verifier(config, spark, client, metadata, stamp, say).run(found)


class _Verifier:
    """One pipeline whose table has a stamp."""

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        client: Client,
        metadata: Mapping[str, object],
        stamp: Stamp,
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._spark = spark
        self._client = client
        self._metadata = metadata
        self._stamp = stamp
        self._say = say
        self._checks: list[Check] = []
        self._notes: list[str] = []

    def run(self, found: Verification) -> Verification:
        view = self._log()
        spans = find_spans(self._metadata, self._config.name, view)
        if spans is None:
            self._unknown("commits", "all snapshots of the pipeline have expired; only its stamp is left")
            return replace(found, stamp=self._stamp, checks=tuple(self._checks))
        told, held = spans.told, spans.held
        if not told.complete:
            self._unknown("commits", f"snapshots have expired: {_not_compared(told)}")
        if held is not None and held is not told:
            gone = sum(spans.trimmed.values())
            self._unknown("log", f"{gone:,} offsets were removed from the log: {_not_compared(held)}")
        lake = Lake(self._spark, self._client)
        try:
            table = lake.load(self._config.table.namespace, self._config.table.name)
            live = live_files(table, self._head())
            self._check_commits(told)
            self._check_rows(told, live)
            counted = None if held is None else self._check_log(held, table, live)
        finally:
            lake.close()
        return replace(
            found,
            stamp=self._stamp,
            partitions=_partitions(spans, counted),
            checks=tuple(self._checks),
            notes=tuple(self._notes),
        )

    def _check_log(self, span: Span, table: LakeTable, live: Sequence[LiveFile]) -> list[Counted] | None:
        content = self._take_columns(table.lake) and self._comparable(span, table, live)
        counted = self._count_log(span, table, content)
        if content and counted is not None:
            self._check_content(span, table, live, counted)
        return counted

    def _head(self) -> int:
        head = MetadataHistory(self._metadata).head
        assert head is not None, "a table with a stamp in its history has snapshots"
        return head

    def _log(self) -> LogView | None:
        """The topics that were read, whatever is selected now; None: they are not there any more."""
        stamp = self._stamp
        try:
            view = KafkaLog(
                KafkaSource(kafka_source(self._config, "verify").settings, tuple(of_log(stamp.positions)))
            ).look()
        except FrazilError as error:
            self._unknown("log", error.message)
            return None
        again = [
            name
            for name, position in of_log(stamp.positions).items()
            if name not in view.topics or view.topics[name].id != position.id
        ]
        if view.source != stamp.source:
            self._unknown("log", f"it was read from {stamp.source}, and this is {view.source}")
        elif again:
            self._unknown(
                "log", f"the topic {', '.join(again)} was deleted, or made again, since it was read"
            )
        else:
            return view
        return None

    def _take_columns(self, lake: Lake) -> bool:
        """As the pipeline does that has them of a registry; whether they are known."""
        try:
            self._config = with_columns(self._config, feed_of(self._config, lake), lake)
        except FrazilError as error:
            self._unknown("content", error.message)
            return False
        return True

    def _comparable(self, span: Span, table: LakeTable, live: Sequence[LiveFile]) -> bool:
        """Whether rows can be compared one by one, and why not."""
        if self._config.transform is not None:
            self._notes.append("the pipeline has a transform: rows are counted, and not compared one by one")
            return False
        configs = {commit.stamp.config for commit in span.commits if commit.added}
        reason = None
        if configs - {self._config.hash}:
            reason = "the pipeline was changed since: the rows of before cannot be made again"
        elif wrong := problems(self._config.source_schema, table.schema):
            reason = f"the table was changed since: {'; '.join(wrong)}"
        elif span.corrections:
            reason = _corrected(span)
        elif not span.alone and span.rewritten:
            reason = f"others changed rows of the table: {_told(span)}"
        elif any(file.deleted != 0 for file in span.files(self._config.name, live)):
            reason = "others removed rows by delete files"
        elif any(file.format != "PARQUET" for file in span.files(self._config.name, live)):
            reason = "others wrote files that are not Parquet"
        if reason is not None:
            self._unknown("content", reason)
        return reason is None

    def _count_log(self, span: Span, table: LakeTable, content: bool) -> list[Counted] | None:
        slices = span.slices()
        total = sum(map(len, slices))
        self._say(f"{self._config.name}: reading {total:,} offsets of the log")
        config, context = self._config, self._spark.sparkContext
        settings, wanted = kafka_source(config, "verify").settings, config.metadata
        reading = context.broadcast(
            Reading(
                KafkaReader(settings, bool(wanted.key), bool(wanted.headers)),
                config.format,
                followed(config, table.schema),
                wanted,
                config.contract,
                lenient=config.dead_letters is not None,
                largest=config.limits.bytes_per_record,
            )
        )
        tasks = cut(slices, max(context.defaultParallelism, -(-total // _PER_TASK)))
        try:
            counted = count_log(self._spark, tasks, reading, table.schema if content else None)
        except FrazilError as error:
            self._unknown("log", error.message)
            return None
        finally:
            reading.destroy()
        records = sum(part.records for part in counted)
        text = f"{records:,} records in {total:,} offsets of the log, {span.read:,} taken by the pipeline"
        self._compare("log", records, span.read, text)
        return counted

    def _check_commits(self, span: Span) -> None:
        text = f"{span.added:,} rows added by {len(span.commits):,} commits, {span.written:,} by the stamp"
        self._compare("commits", span.added, span.written, text)

    def _check_rows(self, span: Span, live: Sequence[LiveFile]) -> None:
        if span.corrections:
            self._unknown("rows", _corrected(span))
            return
        if not span.alone and span.rewritten:
            self._unknown("rows", f"others changed rows of the table: {_told(span)}")
            return
        files = span.files(self._config.name, live)
        if any(file.deleted is None for file in files):
            self._unknown("rows", "others removed rows by equality, which are not counted here")
            return
        rows = sum(file.records - (file.deleted or 0) for file in files)
        text = f"{rows:,} rows in {len(files):,} files of the table, {span.written:,} written by the pipeline"
        if rows != span.written and span.others:
            text += f"; others changed the table: {_told(span)}"
        self._compare("rows", rows, span.written, text)

    def _check_content(
        self, span: Span, table: LakeTable, live: Sequence[LiveFile], counted: Sequence[Counted]
    ) -> None:
        files = span.files(self._config.name, live)
        self._say(f"{self._config.name}: reading {sum(file.size for file in files):,} bytes of the table")
        place = table.data_location
        where = (table.namespace, table.name)
        keys = None
        if not place.startswith(("file:", "/")):
            vended = Renewing(
                lambda: self._client.tables.credentials(*where, read_only=True, location=place),
                margin=_KEY_MARGIN,
            )
            keys = TaskKeys(self._spark, vended).broadcast()
        try:
            there = count_files(self._spark, files, place, keys, table.schema)
        except FrazilError as error:
            self._unknown("content", error.message)
            return
        wanted = sum((part.rows for part in counted), Fingerprint())
        if there == wanted:
            self._checks.append(Check("content", Verdict.OK, f"{there.rows:,} rows are those of the log"))
            return
        text = f"the rows of the table are not those of the log ({there.rows:,} and {wanted.rows:,} rows)"
        if span.others:
            text += f"; others changed the table: {_told(span)}"
        self._checks.append(Check("content", Verdict.WRONG, text))

    def _compare(self, name: str, one: int, other: int, text: str) -> None:
        self._checks.append(Check(name, Verdict.OK if one == other else Verdict.WRONG, text))

    def _unknown(self, name: str, text: str) -> None:
        self._checks.append(Check(name, Verdict.UNKNOWN, text))


def _corrected(span: Span) -> str:
    return f"rows were corrected since, so they are not those of the log: {', '.join(span.corrections)}"


def _told(span: Span) -> str:
    """What others did, in words."""
    found = []
    for view in span.others[:_SHOWN]:
        summary = view.summary
        counts = (f"+{summary.get('added-records', 0)}", f"-{summary.get('deleted-records', 0)}")
        found.append(f"snapshot {view.id} ({summary.get('operation', '?')}, {' '.join(counts)} rows)")
    if len(span.others) > _SHOWN:
        found.append(f"and {len(span.others) - _SHOWN} more")
    return ", ".join(found)


def _not_compared(span: Span) -> str:
    base = span.base.stamp
    where = f"epoch {base.epoch}, round {base.round}"
    return f"what was read up to {where} ({base.read:,} records, {base.written:,} rows) is not compared"


def _partitions(spans: Spans, counted: Sequence[Counted] | None) -> tuple[PartitionRange, ...]:
    compared = {(part.topic, part.partition): part for part in (spans.held or spans.told).slices()}
    found = []
    for part in spans.told.slices():
        key = (part.topic, part.partition)
        first = compared[key].start if key in compared else part.end
        records = None
        if counted is not None:
            records = sum(one.records for one in counted if (one.topic, one.partition) == key)
        gone = spans.trimmed.get(key, 0)
        found.append(PartitionRange(*key, first, part.end, records, first - part.start, gone))
    return tuple(found)
