"""Lakekeeper's Generic Table API: tables of any format, of which the catalog knows name and place."""

from frazil.catalog.api.generic import tables
from frazil.catalog.api.generic.routing import routes

__all__ = ["routes", "tables"]
