"""`/management/v1`, in Lakekeeper's wire format."""

from frazil.catalog.api.management import changes, projects, server, validation, warehouses
from frazil.catalog.api.management.routing import routes

__all__ = ["changes", "projects", "routes", "server", "validation", "warehouses"]
