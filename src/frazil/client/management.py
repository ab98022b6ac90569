"""The management API: the server itself, projects, warehouses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.client.answers import (
    Project,
    ProjectId,
    Projects,
    ServerInfo,
    User,
    Validation,
    Warehouse,
    Warehouses,
    decoded,
)
from frazil.client.flow import Flow, M, Resource, operation
from frazil.client.naming import segment
from frazil.client.session import MANAGEMENT
from frazil.core.errors import InvalidInput, NoSuchWarehouse
from frazil.core.names import is_uuid, name_key

Json = Mapping[str, Any]


class ServerApi(Resource[M]):
    """The server itself."""

    @operation
    def info(self) -> Flow[ServerInfo]:
        """What the server is and what it offers."""
        return decoded((yield from self._session.send("GET", f"{MANAGEMENT}/info")), ServerInfo)

    @operation
    def whoami(self) -> Flow[User]:
        """Who the server takes the caller for."""
        return decoded((yield from self._session.send("GET", f"{MANAGEMENT}/whoami")), User)

    @operation
    def bootstrap(self, *, accept_terms_of_use: bool = True) -> Flow[bool]:
        """Set the server up, which is possible once. False: it was set up before."""
        body = {"accept-terms-of-use": accept_terms_of_use}
        try:
            yield from self._session.send("POST", f"{MANAGEMENT}/bootstrap", body)
        except InvalidInput as error:
            if error.kind != "CatalogAlreadyBootstrapped":
                raise
            return False
        return True


class ProjectsApi(Resource[M]):
    """Projects: groups of warehouses."""

    @operation
    def create(self, name: str, *, project_id: str | None = None) -> Flow[Project]:
        """Create a project, with an id of your choice or a new one."""
        body = _present({"project-name": name, "project-id": project_id})
        answer = yield from self._session.send("POST", f"{MANAGEMENT}/project", body)
        return Project(project_id=decoded(answer, ProjectId).project_id, project_name=name)

    @operation
    def list(self) -> Flow[tuple[Project, ...]]:
        """All projects."""
        answer = yield from self._session.send("GET", f"{MANAGEMENT}/project-list")
        return decoded(answer, Projects).projects

    @operation
    def get(self, project_id: str) -> Flow[Project]:
        """A project by id."""
        path = f"{MANAGEMENT}/project/{segment(project_id)}"
        return decoded((yield from self._session.send("GET", path)), Project)

    @operation
    def rename(self, project_id: str, new_name: str) -> Flow[None]:
        """Give a project another name; its id stays."""
        path = f"{MANAGEMENT}/project/{segment(project_id)}/rename"
        yield from self._session.send("POST", path, {"new-name": new_name})

    @operation
    def delete(self, project_id: str) -> Flow[None]:
        """Delete a project that has no warehouses."""
        yield from self._session.send("DELETE", f"{MANAGEMENT}/project/{segment(project_id)}")


class WarehousesApi(Resource[M]):
    """Warehouses, by name or id."""

    @operation
    def create(
        self,
        name: str,
        storage_profile: Json,
        storage_credential: Json | None = None,
        *,
        delete_profile: Json | None = None,
    ) -> Flow[Warehouse]:
        """Create a warehouse; the server tries its storage before it says yes."""
        body = _warehouse_body(name, storage_profile, storage_credential)
        body |= _present({"delete-profile": delete_profile})
        return decoded((yield from self._session.send("POST", f"{MANAGEMENT}/warehouse", body)), Warehouse)

    @operation
    def validate(
        self, name: str, storage_profile: Json, storage_credential: Json | None = None
    ) -> Flow[Validation]:
        """Try everything that `create` would try, and make nothing."""
        body = _warehouse_body(name, storage_profile, storage_credential)
        path = f"{MANAGEMENT}/warehouse-creation-validation"
        return decoded((yield from self._session.send("POST", path, body, repeatable=True)), Validation)

    @operation
    def list(self, *, active_only: bool = False) -> Flow[tuple[Warehouse, ...]]:
        """The warehouses of the project, inactive ones too unless told otherwise."""
        return (yield from self._list(active_only=active_only))

    @operation
    def get(self, warehouse: str) -> Flow[Warehouse]:
        """A warehouse by name or id, active or not."""
        return (yield from self._get(warehouse))

    @operation
    def delete(self, warehouse: str, *, force: bool = False) -> Flow[None]:
        """Delete a warehouse that is empty; `force` overrides its protection."""
        query = [("force", "true")] if force else []
        yield from self._session.send("DELETE", (yield from self._path(warehouse)), query=query)

    @operation
    def rename(self, warehouse: str, new_name: str) -> Flow[Warehouse]:
        """Give a warehouse another name; its id stays."""
        return (yield from self._change(warehouse, "/rename", {"new-name": new_name}))

    @operation
    def activate(self, warehouse: str) -> Flow[None]:
        """Let clients use a warehouse again."""
        path = yield from self._path(warehouse)
        yield from self._session.send("POST", f"{path}/activate", repeatable=True)

    @operation
    def deactivate(self, warehouse: str) -> Flow[None]:
        """Refuse all use of a warehouse until it is activated; nothing is lost."""
        path = yield from self._path(warehouse)
        yield from self._session.send("POST", f"{path}/deactivate", repeatable=True)

    @operation
    def update_storage(
        self, warehouse: str, storage_profile: Json, storage_credential: Json | None = None
    ) -> Flow[Warehouse]:
        """Replace profile and credential; where the data lies cannot change."""
        body = _present({"storage-profile": storage_profile, "storage-credential": storage_credential})
        return (yield from self._change(warehouse, "/storage", body))

    @operation
    def update_credential(self, warehouse: str, storage_credential: Json) -> Flow[Warehouse]:
        """Replace the credential; the server tries the new one first."""
        body = {"new-storage-credential": storage_credential}
        return (yield from self._change(warehouse, "/storage-credential", body))

    @operation
    def update_delete_profile(self, warehouse: str, delete_profile: Json) -> Flow[Warehouse]:
        """Choose what happens to dropped tables."""
        return (yield from self._change(warehouse, "/delete-profile", {"delete-profile": delete_profile}))

    @operation
    def protect(self, warehouse: str, *, protected: bool = True) -> Flow[None]:
        """Protect a warehouse from deletion, or take the protection off."""
        path = yield from self._path(warehouse)
        yield from self._session.send("POST", f"{path}/protection", {"protected": protected}, repeatable=True)

    def _list(self, *, active_only: bool) -> Flow[tuple[Warehouse, ...]]:
        statuses = ("active",) if active_only else ("active", "inactive")
        query = [("warehouseStatus", status) for status in statuses]
        answer = yield from self._session.send("GET", f"{MANAGEMENT}/warehouse", query=query)
        return decoded(answer, Warehouses).warehouses

    def _get(self, warehouse: str) -> Flow[Warehouse]:
        if is_uuid(warehouse):
            path = f"{MANAGEMENT}/warehouse/{warehouse}"
            return decoded((yield from self._session.send("GET", path)), Warehouse)
        found = yield from self._list(active_only=False)
        for candidate in found:
            if name_key(candidate.name) == name_key(warehouse):
                return candidate
        names = ", ".join(sorted(candidate.name for candidate in found)[:20]) or "none"
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse}. There are: {names}")

    def _path(self, warehouse: str) -> Flow[str]:
        """Changes go by id: the name may be another warehouse's by the time of the change."""
        found = warehouse if is_uuid(warehouse) else (yield from self._get(warehouse)).warehouse_id
        return f"{MANAGEMENT}/warehouse/{found}"

    def _change(self, warehouse: str, path: str, body: Json) -> Flow[Warehouse]:
        """Each sets a state, so doing it twice is doing it once."""
        root = yield from self._path(warehouse)
        return decoded((yield from self._session.send("POST", root + path, body, repeatable=True)), Warehouse)


def _warehouse_body(name: str, profile: Json, credential: Json | None) -> dict[str, Any]:
    return {"warehouse-name": name} | _present({"storage-profile": profile, "storage-credential": credential})


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
