"""Projects: named by id in the path, or by header, or the default one."""

from __future__ import annotations

import uuid

from frazil.catalog.api.management.answers import (
    CreateProjectResponse,
    GetProjectResponse,
    ListProjectsResponse,
)
from frazil.catalog.api.management.bodies import CreateProjectRequest, RenameRequest
from frazil.catalog.api.management.routing import PROJECT_HEADER, check_project_id, project_of, routes
from frazil.catalog.http import Request, Response, json_response, no_content
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store import projects
from frazil.core.names import check_name

_HEADERS = (PROJECT_HEADER,)


@routes.add(
    "POST", "/project", body=CreateProjectRequest, answer=CreateProjectResponse, status=201, errors=(400, 409)
)
async def create_project(catalog: Catalog, request: Request) -> Response:
    """Create a project, with an id of the caller's choice or a new one."""
    body, _ = request.json(CreateProjectRequest)
    name = check_name(body.project_name, "project-name")
    project_id = (
        str(uuid.uuid4()) if body.project_id is None else check_project_id(body.project_id, "project-id")
    )
    await projects.create(catalog.database, projects.Project(project_id, name), now_ms())
    return json_response(CreateProjectResponse(project_id=project_id), 201)


@routes.add("GET", "/project-list", answer=ListProjectsResponse, errors=())
async def list_projects(catalog: Catalog, _request: Request) -> Response:
    """List all projects."""
    found = await projects.list_all(catalog.database)
    return json_response(ListProjectsResponse(projects=[_answer(project) for project in found]))


@routes.add("GET", "/project", headers=_HEADERS, answer=GetProjectResponse)
async def get_default_project(catalog: Catalog, request: Request) -> Response:
    """The project of the header, or the default one."""
    return await _get(catalog, project_of(request))


@routes.add("GET", "/project/{project_id}", answer=GetProjectResponse)
async def get_project(catalog: Catalog, request: Request) -> Response:
    """A project by id."""
    return await _get(catalog, _id(request))


@routes.add("POST", "/project/rename", headers=_HEADERS, body=RenameRequest)
async def rename_default_project(catalog: Catalog, request: Request) -> Response:
    """Rename the project of the header, or the default one."""
    return await _rename(catalog, request, project_of(request))


@routes.add("POST", "/project/{project_id}/rename", body=RenameRequest)
async def rename_project(catalog: Catalog, request: Request) -> Response:
    """Rename a project by id."""
    return await _rename(catalog, request, _id(request))


@routes.add("DELETE", "/project", headers=_HEADERS, status=204, errors=(400, 404, 409))
async def delete_default_project(catalog: Catalog, request: Request) -> Response:
    """Delete the project of the header, or the default one, if it has no warehouses."""
    await projects.delete(catalog.database, project_of(request))
    return no_content()


@routes.add("DELETE", "/project/{project_id}", status=204, errors=(400, 404, 409))
async def delete_project(catalog: Catalog, request: Request) -> Response:
    """Delete a project that has no warehouses."""
    await projects.delete(catalog.database, _id(request))
    return no_content()


async def _get(catalog: Catalog, project_id: str) -> Response:
    return json_response(_answer(await projects.get(catalog.database, project_id)))


async def _rename(catalog: Catalog, request: Request, project_id: str) -> Response:
    body, _ = request.json(RenameRequest)
    await projects.rename(catalog.database, project_id, check_name(body.new_name, "new-name"))
    return Response(200)


def _answer(project: projects.Project) -> GetProjectResponse:
    return GetProjectResponse(project_id=project.project_id, project_name=project.name)


def _id(request: Request) -> str:
    return check_project_id(request.params["project_id"], "project_id")
