"""PyIceberg as the oracle: random commits applied by it and by us give the same document.

Both results are read and written by PyIceberg before they are compared, so the test also shows that it can
read what we make. Where PyIceberg is known to differ from Iceberg's Java library, which we follow:

- `last-updated-ms` and the time of a rollback in the snapshot log are its own clock or the snapshot's
  time; ours are the time of the commit. Both are left out (and with them the times in the metadata log).
- It keeps snapshots in the log that one commit added and passed through; a commit appends one here.
- When snapshots are removed it drops their log entries only; we drop all that came before them too. The
  commits here remove what the log begins with. It clears the parent of a snapshot whose parent is removed
  (left out), and keeps their partition statistics (there are none for snapshots that are removed).
- It takes the ids of new schemas, specs and orders from the request; here they are right in the request.
- It does not upgrade to version 3, though it reads and changes tables of that version.
- In version 1 it leaves the copies of the current schema and spec as they were (left out).
- Setting the location that the table has already is a change for it; not generated.
- Removing what is not there is an error for it, and nothing at all for us; not generated.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata
from tests.catalog.metadata.support import T0, field, new_table, schema, struct

from frazil.catalog import metadata as m
from frazil.catalog import wire

Json = dict[str, Any]
PYICEBERG_UPDATES: TypeAdapter[Any] = TypeAdapter(TableUpdate)


class Commits:
    """Makes commits that a client could send to the table as it is."""

    def __init__(self, draw: Any, table: Json) -> None:
        self.draw = draw
        self.table = table
        self.next_snapshot = 1
        self.used: set[str] = set()

    def commit(self) -> list[Json]:
        self.used = set()
        updates: list[Json] = []
        for _ in range(self.draw(st.integers(1, 4))):
            makers = [k for k in MAKERS if k not in self.used]
            if not makers:
                break
            kind = self.pick(makers)
            self.used.add(kind)
            made = MAKERS[kind](self)
            if made:
                event(kind)
            updates += made
        return updates

    def pick(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def append(self) -> list[Json]:
        if "expire" in self.used:
            return []
        number, doc = self.next_snapshot, self.table
        self.next_snapshot += 1
        snapshot: Json = {
            "snapshot-id": number,
            "timestamp-ms": T0 + number,
            "manifest-list": f"s3://b/{number}.avro",
            "summary": {"operation": "append", "added-records": "3"},
            "schema-id": doc["current-schema-id"],
        }
        if doc["format-version"] > 1:
            snapshot["sequence-number"] = doc["last-sequence-number"] + 1
        if doc["format-version"] == 3:
            snapshot |= {"first-row-id": doc["next-row-id"], "added-rows": self.draw(st.integers(0, 50))}
        if doc["current-snapshot-id"] not in (None, -1):
            snapshot["parent-snapshot-id"] = doc["current-snapshot-id"]
        updates = [{"action": "add-snapshot", "snapshot": snapshot}]
        if "main" not in self.used:
            self.used.add("main")
            updates.append(self._ref("main", number, {}))
        return updates

    def rollback(self) -> list[Json]:
        ids = [s["snapshot-id"] for s in self.table["snapshots"]]
        if not ids or "main" in self.used or "expire" in self.used:
            return []
        self.used.add("main")
        return [self._ref("main", self.pick(ids), {})]

    def tag(self) -> list[Json]:
        ids = [s["snapshot-id"] for s in self.table["snapshots"]]
        if not ids or "expire" in self.used:
            return []
        more = self.pick([{}, {"max-ref-age-ms": 5}])
        return [self._ref(self.pick(["a", "b"]), self.pick(ids), more, self.pick(["branch", "tag"]))]

    def _ref(self, name: str, number: int, more: Json, kind: str = "branch") -> Json:
        return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": number, **more}

    def drop_ref(self) -> list[Json]:
        names = sorted(self.table["refs"])
        if not names or self.used & {"main", "expire", "tag"}:
            return []
        self.used.add("main")
        return [{"action": "remove-snapshot-ref", "ref-name": self.pick(names)}]

    def expire(self) -> list[Json]:
        """A prefix of the log, with nothing in it that comes again later."""
        if self.used - {"expire", "properties"}:
            return []
        self.used |= set(MAKERS)
        log = [entry["snapshot-id"] for entry in self.table["snapshot-log"]]
        count = self.draw(st.integers(0, len(log)))
        prefix, rest = log[:count], log[count:]
        known = {s["snapshot-id"] for s in self.table["snapshots"]}
        gone = sorted(set(prefix) - set(rest))
        if not gone or set(prefix) & set(rest) or not set(gone) <= known:
            return []
        return [{"action": "remove-snapshots", "snapshot-ids": gone}]

    def schema(self) -> list[Json]:
        new_id = max(s["schema-id"] for s in self.table["schemas"]) + 1
        last = self.table["last-column-id"]
        column = field(last + 1, f"c{last + 1}", self.pick(["int", "string", "decimal(9, 2)"]))
        sent = struct(*schema()["fields"], column, **{"identifier-field-ids": [1], "schema-id": new_id})
        updates = [{"action": "add-schema", "schema": sent}]
        if self.draw(st.booleans()):
            updates.append({"action": "set-current-schema", "schema-id": self.pick([-1, new_id])})
            self.used.add("old schema")
        return updates

    def old_schema(self) -> list[Json]:
        wanted = self.pick(self.table["schemas"])["schema-id"]
        if "schema" in self.used or "drop schema" in self.used:
            return []
        return [{"action": "set-current-schema", "schema-id": wanted}]

    def drop_schema(self) -> list[Json]:
        others = [
            s["schema-id"] for s in self.table["schemas"] if s["schema-id"] != self.table["current-schema-id"]
        ]
        if not others or self.used & {"schema", "old schema"}:
            return []
        self.used.add("schema")
        return [{"action": "remove-schemas", "schema-ids": [self.pick(others)]}]

    def spec(self) -> list[Json]:
        new_id = max(s["spec-id"] for s in self.table["partition-specs"]) + 1
        first = 1000 if self.table["format-version"] == 1 else self.table["last-partition-id"] + 1
        source, transform = self.pick(
            [(1, f"bucket[{new_id + 1}]"), (3, "day"), (2, f"truncate[{new_id + 1}]")]
        )
        name = f"p{new_id}_{first}"
        partition = {"source-id": source, "field-id": first, "transform": transform, "name": name}
        updates = [{"action": "add-spec", "spec": {"spec-id": new_id, "fields": [partition]}}]
        if self.draw(st.booleans()):
            updates.append({"action": "set-default-spec", "spec-id": self.pick([-1, new_id])})
        return updates

    def drop_spec(self) -> list[Json]:
        default = self.table["default-spec-id"]
        others = [s["spec-id"] for s in self.table["partition-specs"] if s["spec-id"] != default]
        if not others or "spec" in self.used:
            return []
        self.used.add("spec")
        return [{"action": "remove-partition-specs", "spec-ids": [self.pick(others)]}]

    def order(self) -> list[Json]:
        new_id = max(o["order-id"] for o in self.table["sort-orders"]) + 1
        by = {
            "source-id": 1,
            "transform": f"bucket[{new_id}]",
            "direction": self.pick(["asc", "desc"]),
            "null-order": self.pick(["nulls-first", "nulls-last"]),
        }
        updates = [{"action": "add-sort-order", "sort-order": {"order-id": new_id, "fields": [by]}}]
        if self.draw(st.booleans()):
            updates.append({"action": "set-default-sort-order", "sort-order-id": self.pick([-1, new_id])})
        return updates

    def properties(self) -> list[Json]:
        value = str(self.draw(st.integers(1, 3)))
        key = self.pick(["a", "b", "write.metadata.previous-versions-max"])
        return [{"action": "set-properties", "updates": {key: value}}]

    def drop_property(self) -> list[Json]:
        names = sorted(self.table["properties"])
        if not names or "properties" in self.used:
            return []
        return [{"action": "remove-properties", "removals": [self.pick(names)]}]

    def location(self) -> list[Json]:
        others = [place for place in ("s3://b/0", "s3://b/1") if place != self.table["location"]]
        return [{"action": "set-location", "location": self.pick(others)}]

    def statistics(self) -> list[Json]:
        ids = [s["snapshot-id"] for s in self.table["snapshots"]]
        if not ids or "expire" in self.used:
            return []
        file = {
            "snapshot-id": self.pick(ids),
            "statistics-path": f"s3://b/{self.draw(st.integers(0, 9))}.puffin",
            "file-size-in-bytes": 4,
            "file-footer-size-in-bytes": 2,
            "blob-metadata": [],
        }
        return [{"action": "set-statistics", "statistics": file}]

    def drop_statistics(self) -> list[Json]:
        ids = sorted({s["snapshot-id"] for s in self.table["statistics"]})
        if not ids or self.used & {"expire", "statistics"}:
            return []
        return [{"action": "remove-statistics", "snapshot-id": self.pick(ids)}]

    def upgrade(self) -> list[Json]:
        present = self.table["format-version"]
        if present == 3 or self.used & {"append", "rollback", "drop ref", "expire"}:
            return []
        self.used |= {"append", "expire"}
        wanted = self.draw(st.integers(present, 2))
        return [{"action": "upgrade-format-version", "format-version": wanted}]


MAKERS = {
    "append": Commits.append,
    "rollback": Commits.rollback,
    "tag": Commits.tag,
    "drop ref": Commits.drop_ref,
    "expire": Commits.expire,
    "schema": Commits.schema,
    "old schema": Commits.old_schema,
    "drop schema": Commits.drop_schema,
    "spec": Commits.spec,
    "drop spec": Commits.drop_spec,
    "order": Commits.order,
    "properties": Commits.properties,
    "drop property": Commits.drop_property,
    "location": Commits.location,
    "statistics": Commits.statistics,
    "drop statistics": Commits.drop_statistics,
    "upgrade": Commits.upgrade,
}


def comparable(table: TableMetadata) -> Json:
    read = TableMetadataUtil.parse_obj(table.model_dump())
    doc: Json = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    for key in ("last-updated-ms", "schema", "partition-spec"):
        doc.pop(key, None)
    doc["snapshot-log"] = [entry["snapshot-id"] for entry in doc["snapshot-log"]]
    doc["metadata-log"] = [entry["metadata-file"] for entry in doc["metadata-log"]]
    for snapshot in doc["snapshots"]:
        snapshot.pop("parent-snapshot-id", None)
    return doc


@settings(
    max_examples=int(os.environ.get("FRAZIL_FUZZ_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_random_commits_give_what_pyiceberg_gives(data: st.DataObject) -> None:
    ours = new_table(data.draw(st.integers(1, 3)))
    theirs = TableMetadataUtil.parse_obj(ours)
    commits = Commits(data.draw, ours)
    for number in range(data.draw(st.integers(1, 8))):
        updates = commits.commit()
        body = json.dumps({"requirements": [], "updates": updates}).encode()
        _, raw = wire.decode(wire.CommitTableRequest, body)
        file = f"s3://b/{number}.metadata.json"
        ours = m.apply_updates(ours, raw["updates"], now_ms=T0 + 1000 + number, metadata_location=file)
        parsed = tuple(PYICEBERG_UPDATES.validate_python(update) for update in updates)
        theirs = update_table_metadata(theirs, parsed, metadata_location=file)
        assert comparable(TableMetadataUtil.parse_obj(ours)) == comparable(theirs)
        assert m.parse_table_metadata(m.encode(ours)) == ours
        commits.table = ours
