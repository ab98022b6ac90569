"""A registered metadata file may be written again under its old name: no copy of it may outlive that."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.catalog.api.client import Catalog, connect, local_path, set_properties

from frazil.devstack.frazil_server import FrazilServer

Levels = tuple[str, ...]


def rewrite(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def register(catalog: Catalog, ns: Levels, location: str, **more: object) -> None:
    body = {"name": "t", "metadata-location": location, **more}
    catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()


def test_overwriting_with_the_same_location(catalog: Catalog, ns: Levels) -> None:
    location = catalog.create_table(ns, "t").ok()["metadata-location"]
    before = catalog.load(ns, "t")
    rewrite(Path(local_path(location)), properties={"changed": "yes"})
    register(catalog, ns, location, overwrite=True)
    after = catalog.load(ns, "t", {"If-None-Match": before.headers["etag"]})
    assert after.ok()["metadata"]["properties"] == {"changed": "yes"}


@pytest.mark.services
def test_a_replica_never_commits_what_is_gone(postgres_url: Callable[[], str]) -> None:
    """Before, a replica took the old document for current and wrote it over the new table."""
    url = postgres_url()
    with FrazilServer(database_url=url) as first, FrazilServer(first.directory, database_url=url) as second:
        one, two = connect(first.port), connect(second.port)
        ns = ("again",)
        one.create_namespace(*ns).ok()
        location = one.create_table(ns, "t").ok()["metadata-location"]
        old = two.load(ns, "t").ok()["metadata"]["table-uuid"]
        one.send("DELETE", one.table_path(ns, "t")).ok(204)
        new = str(uuid.uuid4())
        rewrite(Path(local_path(location)), **{"table-uuid": new})
        register(one, ns, location)
        requirement = {"type": "assert-table-uuid", "uuid": old}
        two.commit(ns, "t", set_properties(a="b"), requirements=[requirement]).refused(409)
        assert two.commit(ns, "t", set_properties(a="b")).ok()["metadata"]["table-uuid"] == new
        assert one.load(ns, "t").ok()["metadata"]["table-uuid"] == new
