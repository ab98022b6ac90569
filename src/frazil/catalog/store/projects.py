"""Projects and the server's own row in the database."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.db import Connection, Database, ForeignKeyViolation, UniqueViolation
from frazil.core.errors import AlreadyExists, Conflict, NoSuchProject


@dataclass(frozen=True, slots=True)
class Project:
    project_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Server:
    server_id: str
    bootstrapped_at: int | None


async def server(connection: Connection) -> Server:
    row = await connection.fetchrow("SELECT server_id, bootstrapped_at FROM server")
    assert row is not None, "made when the server starts for the first time"
    return Server(row[0], row[1])


async def bootstrap(database: Database, default_project: str, now_ms: int) -> bool:
    """Mark the server as bootstrapped, once; False when it was already."""
    async with database.transaction() as connection:
        touched = await connection.execute(
            "UPDATE server SET bootstrapped_at = $1 WHERE bootstrapped_at IS NULL", now_ms
        )
        if touched:
            await connection.execute(
                "INSERT INTO project (project_id, name, created_at) VALUES ($1, $2, $3) "
                "ON CONFLICT DO NOTHING",
                default_project,
                "Default Project",
                now_ms,
            )
        return touched == 1


async def create(connection: Connection, project: Project, now_ms: int) -> None:
    try:
        await connection.execute(
            "INSERT INTO project (project_id, name, created_at) VALUES ($1, $2, $3)",
            project.project_id,
            project.name,
            now_ms,
        )
    except UniqueViolation as error:
        raise AlreadyExists(
            f"project-id: a project {project.project_id} exists already", kind="ProjectAlreadyExists"
        ) from error


async def get(connection: Connection, project_id: str) -> Project:
    row = await connection.fetchrow("SELECT project_id, name FROM project WHERE project_id = $1", project_id)
    if row is None:
        raise no_such(project_id)
    return Project(row[0], row[1])


async def list_all(connection: Connection) -> list[Project]:
    rows = await connection.fetch("SELECT project_id, name FROM project ORDER BY project_id")
    return [Project(row[0], row[1]) for row in rows]


async def rename(connection: Connection, project_id: str, name: str) -> None:
    touched = await connection.execute("UPDATE project SET name = $2 WHERE project_id = $1", project_id, name)
    if not touched:
        raise no_such(project_id)


async def delete(connection: Connection, project_id: str) -> None:
    try:
        touched = await connection.execute("DELETE FROM project WHERE project_id = $1", project_id)
    except ForeignKeyViolation as error:
        raise Conflict(
            f"Project {project_id} has warehouses; delete them first", kind="ProjectNotEmpty"
        ) from error
    if not touched:
        raise no_such(project_id)


def no_such(project_id: str) -> NoSuchProject:
    return NoSuchProject(f"Project does not exist: {project_id}")
