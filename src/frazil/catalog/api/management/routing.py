"""What the handlers of the management API share."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from frazil.catalog.api.config import DEFAULT_PROJECT
from frazil.catalog.http import Request, Routes
from frazil.core.errors import InvalidInput
from frazil.core.names import is_uuid

routes = Routes("/management/v1", tag="Management")

PROJECT_HEADER = "x-project-id"
_OLD_PROJECT_HEADER = "x-project-ident"
_PROJECT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def project_of(request: Request, given: str | None = None, field: str = "project-id") -> str:
    """The project a request is about: as given, else of the header, else the default one."""
    if given is not None:
        return check_project_id(given, field)
    for header in (PROJECT_HEADER, _OLD_PROJECT_HEADER):
        value = request.header(header)
        if value:
            return check_project_id(value, header)
    return DEFAULT_PROJECT


def check_project_id(project_id: str, field: str) -> str:
    """UUIDs are compared without regard to case."""
    if not _PROJECT_ID.fullmatch(project_id):
        raise InvalidInput(f"{field}: {project_id[:80]!a} is not 1 to 64 letters, digits, '-' or '_'")
    return project_id.lower() if is_uuid(project_id) else project_id


def warehouse_of(request: Request) -> str:
    """The warehouse id in the path."""
    given = request.params["warehouse_id"]
    if not is_uuid(given):
        raise InvalidInput(f"warehouse_id: {given[:80]!a} is not a UUID")
    return given.lower()


def timestamp(milliseconds: int) -> str:
    """RFC 3339, in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
