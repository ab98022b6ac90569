"""Metadata may name any files: those of another table outlive whatever happens to the one that names them."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.catalog.api.client import Catalog, local_path, set_properties
from tests.catalog.api.generic.support import wait_until

Levels = tuple[str, ...]


def register_naming(catalog: Catalog, ns: Levels, named: list[str], **properties: str) -> Path:
    """The table `r`, by a metadata file whose log names the files; the metadata file."""
    source = catalog.create_table(ns, "source").ok()["metadata"]
    location = f"{source['location'].rpartition('/')[0]}/{ns[0]}-{uuid4()}"
    now = source["last-updated-ms"]
    document = {
        **source,
        "location": location,
        "table-uuid": str(uuid4()),
        "properties": properties,
        "metadata-log": [{"timestamp-ms": now, "metadata-file": file} for file in named],
    }
    file = Path(local_path(location)) / "metadata" / "00000-a.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document))
    body = {"name": "r", "metadata-location": f"file://{file}"}
    catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()
    return file


@pytest.fixture
def victims(catalog: Catalog, ns: Levels) -> list[str]:
    """Files of a table, of a generic table, and of a table that was moved away from them."""
    table = catalog.create_table(ns, "victim").ok()["metadata-location"]
    moved = catalog.create_table(ns, "moved").ok()["metadata-location"]
    elsewhere = f"{moved.rpartition('/metadata/')[0]}-now"
    catalog.commit(ns, "moved", {"action": "set-location", "location": elsewhere}).ok()
    body = {"name": "generic", "format": "lance"}
    path = f"/lakekeeper/v1/{catalog.prefix}/namespaces/{ns[0]}/generic-tables"
    generic = f"{catalog.client.send('POST', path, body).ok()['table']['base-location']}/x"
    Path(local_path(generic)).parent.mkdir(parents=True, exist_ok=True)
    Path(local_path(generic)).write_text("data")
    return [table, moved, generic]


@pytest.fixture
def stray(catalog: Catalog, ns: Levels, victims: list[str]) -> str:
    """A file of nobody: it is deleted, and shows when the deleting is over."""
    file = f"{victims[0].rpartition('/metadata/')[0].rpartition('/')[0]}/stray-{ns[0]}/x"
    Path(local_path(file)).parent.mkdir()
    Path(local_path(file)).write_text("data")
    return file


def test_a_purge_leaves_the_files_of_other_tables(
    catalog: Catalog, ns: Levels, victims: list[str], stray: str
) -> None:
    own = register_naming(catalog, ns, [*victims, stray])
    catalog.send("DELETE", catalog.table_path(ns, "r") + "?purgeRequested=true").ok(204)
    wait_until(lambda: not own.exists(), "the purge")
    assert not Path(local_path(stray)).exists()
    assert all(Path(local_path(file)).exists() for file in victims)


def test_old_metadata_files_of_other_tables_are_left(
    catalog: Catalog, ns: Levels, victims: list[str], stray: str
) -> None:
    only_the_last = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    register_naming(catalog, ns, [*victims, stray], **only_the_last)
    catalog.commit(ns, "r", set_properties(a="b")).ok()
    wait_until(lambda: not Path(local_path(stray)).exists(), "the old metadata files to be deleted")
    assert all(Path(local_path(file)).exists() for file in victims)
