"""View metadata: the first version, every later one, and what a commit requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.catalog.metadata import schema as schemas
from frazil.catalog.metadata.properties import parse_int
from frazil.catalog.metadata.schema import SchemaIndex
from frazil.catalog.metadata.table import checked_location, checked_uuid
from frazil.core.errors import CommitFailed, InvalidInput, NoSuchView

Json = dict[str, Any]

LAST_ADDED = -1
#: Each version is compared with all that are there; no honest commit brings more than a few.
MAX_UPDATES = 200
FORMAT_VERSION = 1
HISTORY_SIZE = "version.history.num-entries"
DROP_DIALECT = "replace.drop-dialect.allowed"
_DEFAULT_HISTORY_SIZE = 10


class _View:
    """A view's metadata on its way through a commit; lists are replaced, never written to in place."""

    __slots__ = ("added", "changed", "doc", "history", "last_schema", "last_version", "now_ms", "previous")

    def __init__(self, base: Json, now_ms: int) -> None:
        self.doc = dict(base)
        self.now_ms = now_ms
        self.changed = False
        self.added: set[int] = set()
        self.last_schema: int | None = None
        self.last_version: int | None = None
        self.history: Json | None = None
        self.previous = self.version(base["current-version-id"])

    def set(self, key: str, value: Any) -> None:
        self.changed = True
        self.doc[key] = value

    def version(self, version_id: int) -> Json | None:
        for version in self.doc["versions"]:
            if version["version-id"] == version_id:
                found: Json = version
                return found
        return None


def new_view_metadata(
    *,
    uuid: str,
    location: str,
    schema: Json,
    view_version: Json,
    properties: dict[str, str],
    now_ms: int,
) -> Json:
    """The metadata of a view that does not exist yet; its version refers to the schema sent beside it."""
    empty: Json = {
        "view-uuid": checked_uuid(uuid),
        "format-version": FORMAT_VERSION,
        "location": checked_location(location),
        "properties": properties,
        "schemas": [],
        "current-version-id": LAST_ADDED,
        "versions": [],
        "version-log": [],
    }
    view = _View(empty, now_ms)
    _add_schema(view, {"schema": schema})
    _add_version(view, {"view-version": {**view_version, "schema-id": LAST_ADDED}})
    _set_current_version(view, {"view-version-id": LAST_ADDED})
    return _finish(view)


def check_view_requirements(requirements: list[Json] | None, metadata: Json | None) -> None:
    """Raise CommitFailed (409) when a requirement does not hold; NoSuchView when there is no view."""
    if metadata is None:
        raise NoSuchView("The view does not exist")
    for position, requirement in enumerate(requirements or ()):
        # There is one kind only, so validation lets a requirement without a type pass.
        kind = requirement.get("type")
        if kind != "assert-view-uuid":
            raise InvalidInput(f"requirements[{position}].type: {kind!r} is not a requirement of a view")
        if requirement["uuid"].lower() != metadata["view-uuid"].lower():
            raise CommitFailed(
                f"Requirement failed: view UUID does not match: "
                f"expected {requirement['uuid'][:100]} != {metadata['view-uuid']}"
            )


def apply_view_updates(metadata: Json, updates: list[Json], *, now_ms: int) -> Json:
    """What `updates` make of a view; `metadata` itself, the same object, when they change nothing."""
    if len(updates) > MAX_UPDATES:
        raise InvalidInput(f"updates: {len(updates)} of them, at most {MAX_UPDATES} are allowed for a view")
    view = _View(metadata, now_ms)
    for position, update in enumerate(updates):
        action = update["action"]
        try:
            apply = _ACTIONS.get(action)
            if apply is None:
                raise InvalidInput("not an update of a view")
            apply(view, update)
        except InvalidInput as error:
            where = f"updates[{position}] ({action})"
            raise InvalidInput(f"{where}: {error.message}", kind=error.kind) from None
    return _finish(view) if view.changed else metadata


def _finish(view: _View) -> Json:
    doc = view.doc
    if view.history is not None:
        view.set("version-log", [*doc["version-log"], view.history])
    current = view.version(doc["current-version-id"])
    if current is None:
        raise InvalidInput(f"updates: there is no view version {doc['current-version-id']} to be current")
    properties = doc.get("properties") or {}
    if view.previous is not None and properties.get(DROP_DIALECT, "").lower() != "true":
        lost = _dialects(view.previous) - _dialects(current)
        if lost:
            raise InvalidInput(
                f"updates: the current view version loses the dialect {', '.join(sorted(lost))}, "
                f"and {DROP_DIALECT} is not true"
            )
    _expire(view, current, _history_size(properties))
    return doc


def _expire(view: _View, current: Json, history_size: int) -> None:
    """Keep the newest versions, whatever this commit added, and the current one."""
    keep = max(len(view.added | {current["version-id"]}), history_size)
    versions = view.doc["versions"]
    if len(versions) <= keep:
        return
    newest = sorted((v["version-id"] for v in versions if v is not current), reverse=True)[: keep - 1]
    kept_ids = {current["version-id"], *newest}
    view.set("versions", [v for v in versions if v["version-id"] in kept_ids])
    log: list[Json] = []
    for entry in view.doc["version-log"]:
        if entry["version-id"] in kept_ids:
            log.append(entry)
        else:
            # With a gap, the version before it would seem to have been current for longer than it was.
            log.clear()
    view.set("version-log", log)


def _history_size(properties: dict[str, str]) -> int:
    text = properties.get(HISTORY_SIZE)
    if text is None:
        return _DEFAULT_HISTORY_SIZE
    size = parse_int(text)
    if size is None or size <= 0:
        raise InvalidInput(f"property {HISTORY_SIZE} must be a number, 1 or more: {text[:50]!r}")
    return size


def _dialects(version: Json) -> set[str]:
    return {r["dialect"].lower() for r in version["representations"] if r.get("type") == "sql"}


def _assign_uuid(view: _View, update: Json) -> None:
    if checked_uuid(update["uuid"]).lower() != view.doc["view-uuid"].lower():
        raise InvalidInput(
            f"the view has the UUID {view.doc['view-uuid']}, it cannot become {update['uuid']}"
        )


def _upgrade(view: _View, update: Json) -> None:
    if update["format-version"] != FORMAT_VERSION:
        raise InvalidInput(f"views have format version {FORMAT_VERSION}, not {update['format-version']}")


def _add_schema(view: _View, update: Json) -> None:
    sent = update["schema"]
    SchemaIndex(sent)
    next_id = 0
    new = schemas.normalised(sent, next_id)
    for existing in view.doc["schemas"]:
        if schemas.same(existing, new):
            view.last_schema = existing["schema-id"]
            return
        next_id = max(next_id, existing["schema-id"] + 1)
    new["schema-id"] = view.last_schema = next_id
    view.set("schemas", [*view.doc["schemas"], new])


def _set_location(view: _View, update: Json) -> None:
    location = checked_location(update["location"])
    if view.doc["location"] != location:
        view.set("location", location)


def _set_properties(view: _View, update: Json) -> None:
    if update["updates"]:
        view.set("properties", {**(view.doc.get("properties") or {}), **update["updates"]})


def _remove_properties(view: _View, update: Json) -> None:
    if update["removals"]:
        gone = set(update["removals"])
        kept = {k: v for k, v in (view.doc.get("properties") or {}).items() if k not in gone}
        view.set("properties", kept)


def _add_version(view: _View, update: Json) -> None:
    version = {k: v for k, v in update["view-version"].items() if v is not None}
    if version["schema-id"] == LAST_ADDED:
        if view.last_schema is None:
            raise InvalidInput("schema-id -1 stands for the last added schema, but this commit adds none")
        version["schema-id"] = view.last_schema
    if all(s["schema-id"] != version["schema-id"] for s in view.doc["schemas"]):
        raise InvalidInput(f"there is no schema {version['schema-id']}")
    _check_version(version)
    next_id = version["version-id"]
    for existing in view.doc["versions"]:
        if _same_version(existing, version):
            view.last_version = existing["version-id"]
            return
        next_id = max(next_id, existing["version-id"] + 1)
    if next_id >= 2**31:
        raise InvalidInput("no view version ids are left")
    version["version-id"] = view.last_version = next_id
    view.added.add(next_id)
    view.set("versions", [*view.doc["versions"], version])


def _check_version(version: Json) -> None:
    if version["version-id"] < 0:
        raise InvalidInput(f"version-id must not be negative: {version['version-id']}")
    if not version["representations"]:
        raise InvalidInput("a view version needs at least one representation")
    seen: set[str] = set()
    for representation in version["representations"]:
        dialect = representation["dialect"].lower()
        if dialect in seen:
            raise InvalidInput(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}",
                kind="IllegalArgumentException",  # the class that Iceberg's clients throw for it
            )
        seen.add(dialect)


def _same_version(one: Json, other: Json) -> bool:
    keys = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")
    return all(one.get(key) == other.get(key) for key in keys)


def _set_current_version(view: _View, update: Json) -> None:
    wanted = update["view-version-id"]
    if wanted == LAST_ADDED:
        if view.last_version is None:
            raise InvalidInput("-1 stands for the last added view version, but this commit adds none")
        wanted = view.last_version
    version = view.version(wanted)
    if version is None:
        raise InvalidInput(f"there is no view version {wanted}")
    if view.doc["current-version-id"] == wanted:
        return
    view.set("current-version-id", wanted)
    # A version that is taken up again is current from now on, not from when it was written.
    when = version["timestamp-ms"] if wanted in view.added else view.now_ms
    view.history = {"timestamp-ms": when, "version-id": wanted}


_ACTIONS: dict[str, Callable[[_View, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current_version,
}
