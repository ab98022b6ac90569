"""Projects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from tests.catalog.api.management.conftest import Client

pytestmark = pytest.mark.services

NIL = "00000000-0000-0000-0000-000000000000"


def test_life_of_a_project(client: Client) -> None:
    created = client.post("/project", {"project-name": "sales"})
    assert created.status == 201
    project = created.body["project-id"]
    assert client.get(f"/project/{project}").body == {"project-id": project, "project-name": "sales"}
    assert client.get("/project", x_project_id=project).body["project-name"] == "sales"
    assert {"project-id": project, "project-name": "sales"} in client.get("/project-list").body["projects"]
    assert client.post(f"/project/{project}/rename", {"new-name": "Sales"}).status == 200
    assert client.post("/project/rename", {"new-name": "SALES"}, x_project_id=project).status == 200
    assert client.get("/project", x_project_ident=project).body["project-name"] == "SALES"
    assert client.delete(f"/project/{project}").status == 204
    assert client.get(f"/project/{project}").error == (404, "ProjectNotFound")
    assert client.delete(f"/project/{project}").error == (404, "ProjectNotFound")
    assert client.post(f"/project/{project}/rename", {"new-name": "x"}).error == (404, "ProjectNotFound")


def test_an_id_of_the_callers_choice(client: Client) -> None:
    project = str(uuid4()).upper()
    assert client.post("/project", {"project-name": "p", "project-id": project}).body == {
        "project-id": project.lower()
    }
    assert client.post("/project", {"project-name": "p", "project-id": project}).error == (
        409,
        "ProjectAlreadyExists",
    )
    assert client.get(f"/project/{project}").status == 200
    assert client.delete("/project", x_project_id=project).status == 204


def test_the_default_project(client: Client) -> None:
    assert client.get("/project").body["project-id"] == NIL
    assert client.delete("/project").error == (409, "ProjectNotEmpty")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "project-name"),
        ({"project-name": ""}, "project-name"),
        ({"project-name": 5}, "project-name"),
        ({"project-name": "x" * 300}, "project-name"),
        ({"project-name": "a\nb"}, "project-name"),
        ({"project-name": "a\x00b"}, "project-name"),
        ({"project-name": "p", "project-id": "a b"}, "project-id"),
        ({"project-name": "p", "project-id": ""}, "project-id"),
        ({"project-name": "p", "project-id": 5}, "project-id"),
    ],
)
def test_bad_input_names_the_field(client: Client, body: dict[str, Any], field: str) -> None:
    answer = client.post("/project", body)
    assert answer.status == 400
    assert field in answer.message


def test_bad_project_ids_elsewhere(client: Client) -> None:
    assert client.get("/project", x_project_id="no spaces").status == 400
    assert client.get("/project/%20").status == 400
    assert client.get("/project/nobody").error == (404, "ProjectNotFound")


def test_warehouses_keep_to_their_project(
    client: Client, local_warehouse: Callable[..., dict[str, Any]]
) -> None:
    project = client.post("/project", {"project-name": "p"}).body["project-id"]
    body = local_warehouse()
    made = client.post("/warehouse", {**body, "project-id": project}).body
    assert made["project-id"] == project
    assert [w["id"] for w in client.get("/warehouse", x_project_id=project).body["warehouses"]] == [
        made["id"]
    ]
    assert [w["id"] for w in client.get(f"/warehouse?projectId={project}").body["warehouses"]] == [made["id"]]
    assert made["id"] not in [w["id"] for w in client.get("/warehouse").body["warehouses"]]
    other = {**local_warehouse(), "warehouse-name": body["warehouse-name"]}
    assert client.post("/warehouse", other).status == 201
    assert client.delete(f"/project/{project}").error == (409, "ProjectNotEmpty")
    assert client.delete(f"/warehouse/{made['id']}").status == 204
    assert client.delete(f"/project/{project}").status == 204
    assert client.post("/warehouse", {**local_warehouse(), "project-id": project}).error == (
        404,
        "ProjectNotFound",
    )
    assert client.get("/warehouse", x_project_id=project).error == (404, "ProjectNotFound")
