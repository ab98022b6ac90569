"""Iceberg table and view metadata: plain JSON documents in, new documents out.

Nothing here reads a clock, a file or a database, and nothing writes to a document it was given. A result
shares its unchanged parts with the document it came from, so neither may be written to afterwards.
"""

from frazil.catalog.metadata.documents import parse_table_metadata, parse_view_metadata, refs_only
from frazil.catalog.metadata.files import (
    encode,
    metadata_file_name,
    next_metadata_location,
    removed_metadata_files,
)
from frazil.catalog.metadata.jobs import (
    JOB_KINDS,
    JobWrites,
    is_job_id,
    writes_of,
    writes_of_updates,
)
from frazil.catalog.metadata.properties import format_version_of, is_gzip
from frazil.catalog.metadata.requirements import check_requirements, is_create
from frazil.catalog.metadata.table import apply_updates, new_table_metadata
from frazil.catalog.metadata.views import apply_view_updates, check_view_requirements, new_view_metadata

__all__ = [
    "JOB_KINDS",
    "JobWrites",
    "apply_updates",
    "apply_view_updates",
    "check_requirements",
    "check_view_requirements",
    "encode",
    "format_version_of",
    "is_create",
    "is_gzip",
    "is_job_id",
    "metadata_file_name",
    "new_table_metadata",
    "new_view_metadata",
    "next_metadata_location",
    "parse_table_metadata",
    "parse_view_metadata",
    "refs_only",
    "removed_metadata_files",
    "writes_of",
    "writes_of_updates",
]
