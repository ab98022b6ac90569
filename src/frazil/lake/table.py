"""A table in Spark's JVM, read from Python with few calls: each costs about as much as a small query."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from frazil.client import Renewing
from frazil.core.correction import CORRECTION
from frazil.core.errors import (
    CommitFailed,
    CommitStateUnknown,
    FrazilError,
    HistoryChanged,
    InvalidInput,
    ServiceError,
    Unprocessable,
)
from frazil.core.names import show
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema, SchemaChange, Type
from frazil.core.stamp import stamp_key
from frazil.lake.authority import MetadataHistory, SnapshotView, ancestry
from frazil.lake.evolution import evolved, steps
from frazil.lake.files import FileOptions, WriteTarget
from frazil.lake.java import as_commit, java_errors
from frazil.lake.storage import FileStorage, is_local

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

#: Snapshots whose stamps are kept in memory; a long run sees one more with every commit.
_KEPT = 1000
#: Tries to change a schema while others change the table.
_CONFLICTS = 20
#: Of summaries: what is told by snapshots.
_TOLD = (stamp_key(""), CORRECTION)


class LakeTable:
    """One table. What it tells is of the moment of the last `refresh` or commit."""

    def __init__(self, lake: Lake, namespace: tuple[str, ...], name: str, loaded: Any) -> None:
        self.lake = lake
        self.namespace = namespace
        self.name = name
        #: The Java table, for what is not offered here.
        self.java = loaded
        self.operations = loaded.operations()
        self._snapshots: dict[int, SnapshotView] = {}
        self._schemas: dict[int, Schema] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._specs: dict[tuple[int, int], PartitionSpec] = {}
        self._location = ""
        self._read(self.operations.current())

    def refresh(self) -> None:
        """Ask the catalog for the newest state. HistoryChanged: another table has the name now."""
        self._read(self._loaded(self.operations.refresh))

    def transaction(self) -> Any:
        """A Java transaction on the newest state, which is loaded for it: what this table tells is its base.

        Iceberg loads the table anew for each transaction: to look first and open it then is to build on
        what nobody looked at.
        """
        opened = self._loaded(self.java.newTransaction)
        with java_errors(f"reading the table {self}"):
            self._read(opened.startMetadata())
        return opened

    def _loaded(self, call: Callable[[], Any]) -> Any:
        try:
            with java_errors(f"loading the table {self}"):
                return call()
        except ServiceError:
            # Iceberg refuses to load another table into this one, with an error that has no class of its own.
            if self.lake.load(self.namespace, self.name).uuid != self.uuid:
                raise HistoryChanged(
                    f"the table {self} was dropped and made again (its id was {self.uuid}), and nothing more "
                    "is written to the old one",
                    "Start the pipeline again to begin with the new table",
                ) from None
            raise

    def reread(self, landed: Any = None) -> None:
        """Take over what the last commit answered, or `landed`, which it asked for, if that was nothing.

        The Java table knows of `landed` only after the next `refresh` or `transaction`.
        """
        with java_errors(f"reading the table {self}"):
            self._read(self.operations.current() if landed is None else landed)

    def _read(self, metadata: Any) -> None:
        location = metadata.metadataFileLocation()
        if location is not None and location == self._location:
            return
        with java_errors(f"reading the table {self}"):
            self.metadata = metadata
            self._location = location
            self.uuid = str(metadata.uuid())
            current = metadata.currentSnapshot()
            #: The snapshot that main points at.
            self.head: int | None = None if current is None else int(current.snapshotId())
            self.location = str(metadata.location()).rstrip("/")
            self.properties: Mapping[str, str] = self._json(metadata.properties())
            self.schema = self._schema(int(metadata.currentSchemaId()))
            self.spec = self._spec(int(metadata.defaultSpecId()))
            #: The columns that tell its rows apart, as far as the table says so.
            self.key: tuple[str, ...] = self._keys[self.schema.id]

    @property
    def data_location(self) -> str:
        """Where data files go."""
        return self.properties.get("write.data.path", f"{self.location}/data").rstrip("/")

    def snapshot(self, snapshot_id: int) -> SnapshotView | None:
        """One snapshot, None if it expired."""
        with java_errors(f"reading the table {self}"):
            found = self.metadata.snapshot(snapshot_id)
            if found is None:
                return None
            if snapshot_id not in self._snapshots:
                if len(self._snapshots) >= _KEPT:
                    self._snapshots.clear()
                self._snapshots[snapshot_id] = self._view(snapshot_id, found)
            return self._snapshots[snapshot_id]

    def snapshots(self) -> Iterable[SnapshotView]:
        """All that the table still has, on whatever branch."""
        with java_errors(f"reading the table {self}"):
            text = self.lake.iceberg.TableMetadataParser.toJson(self.metadata)
        return MetadataHistory(msgspec.json.decode(text)).snapshots()

    def ancestry(self) -> Iterator[SnapshotView]:
        """Main's snapshots, newest first, down to the first one or to where they expired."""
        return ancestry(self)

    def property(self, key: str) -> str | None:
        """A table property."""
        return self.properties.get(key)

    def ref(self, name: str) -> int | None:
        """The snapshot that a branch or tag points at."""
        with java_errors(f"reading the table {self}"):
            found = self.metadata.ref(name)
            return None if found is None else int(found.snapshotId())

    def spec_ids(self) -> set[int]:
        """Specs that files of this table may have."""
        with java_errors(f"reading the table {self}"):
            return set(self._json(self.metadata.specsById().keySet()))

    def evolve(self, changes: Sequence[SchemaChange]) -> None:
        """Add and widen columns, in one commit; what is there already is fine, whoever made it.

        Unprocessable: Iceberg cannot. May be called again after any error.
        """
        for number in range(_CONFLICTS):
            self.refresh()
            wanted = evolved(self.schema, changes)
            if wanted == self.schema:
                return
            try:
                self._alter(wanted)
                return
            except (CommitFailed, CommitStateUnknown) as error:
                last = error
            time.sleep(random.uniform(0.5, 1.0) * 0.02 * 2.0 ** min(number, 5))  # noqa: S311
        raise CommitFailed(f"{last.message}; {_CONFLICTS} tries. Try again")

    def _alter(self, wanted: Schema) -> None:
        there = set(steps(self.schema))
        try:
            with java_errors(f"changing the schema of the table {self}"):
                change = self.java.updateSchema()
                for step in steps(wanted):
                    if step.name is not None:
                        change.addColumn(step.path or None, step.name, self._java_type(step.type))
                    elif step not in there:
                        change.updateColumn(step.path, self._java_type(step.type))
                change.commit()
        except InvalidInput as error:
            raise Unprocessable(error.message) from None
        except FrazilError as error:
            raise as_commit(error) from None
        self.reread()

    def _java_type(self, kind: Type) -> Any:
        column = Schema((Field("x", kind),)).with_fresh_ids()
        text = msgspec.json.encode(column.to_json()).decode()
        return self.lake.schemas.fromJson(text).findType("x")

    def write_target(self, options: FileOptions | None = None) -> WriteTarget:
        """What a task must know to write files of this table."""
        return WriteTarget(self.data_location, self.schema, self.spec, options or FileOptions())

    def renewing_keys(self, margin: float) -> Renewing | None:
        """Keys for the place of its data files that never end, as long as they are asked for; None: local."""
        place, where = self.data_location, (self.namespace, self.name)
        if is_local(place):
            return None
        # By place: a table with `write.data.path` has keys for several.
        return Renewing(lambda: self.lake.client.tables.credentials(*where, location=place), margin=margin)

    def storage(self) -> FileStorage:
        """The place of its data files, with new keys from the catalog where it needs any."""
        keys = self.renewing_keys(0.0)
        return FileStorage.of(self.data_location, None if keys is None else keys.current())

    def __str__(self) -> str:
        return show(self.namespace, self.name)

    def __repr__(self) -> str:
        return f"LakeTable({str(self)!r})"

    def _json(self, value: Any) -> Any:
        """A Java map in one call, not one for each entry."""
        return msgspec.json.decode(self.lake.json.writeValueAsString(value))

    def _view(self, snapshot_id: int, found: Any) -> SnapshotView:
        parent = found.parentId()
        summary = {k: v for k, v in self._json(found.summary()).items() if k.startswith(_TOLD)}
        return SnapshotView(snapshot_id, None if parent is None else int(parent), summary)

    def _schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:
            text = self.lake.schemas.toJson(self.metadata.schema())
            document = msgspec.json.decode(text)
            self._schemas[schema_id] = schema = Schema.from_json(document, str(self))
            identifiers = document.get("identifier-field-ids", ())
            self._keys[schema_id] = tuple(field.name for field in schema if field.id in identifiers)
        return self._schemas[schema_id]

    def _spec(self, spec_id: int) -> PartitionSpec:
        # A spec names columns by the schema, so another schema makes it another one.
        key = (spec_id, self.schema.id)
        if key not in self._specs:
            text = self.lake.specs.toJson(self.metadata.spec())
            self._specs[key] = PartitionSpec.from_json(msgspec.json.decode(text), self.schema)
        return self._specs[key]
