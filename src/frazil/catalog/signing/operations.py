"""The S3 operations that are signed, by method and query. Whatever is not listed is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.catalog.signing.address import Address
from frazil.core.errors import NotAllowed

#: SDKs name the operation in it; stores ignore it.
_IGNORED = frozenset({"x-id"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One S3 operation."""

    name: str
    method: str
    #: On the bucket, or on an object.
    on_bucket: bool = False
    #: Query parameters: those that make it this operation, and those it may have besides.
    required: frozenset[str] = field(default=frozenset())
    optional: frozenset[str] = field(default=frozenset())
    write: bool = False

    def fits(self, method: str, address: Address) -> bool:
        names = address.query.keys() - _IGNORED
        return (
            method == self.method
            and self.on_bucket == (not address.key)
            and self.required <= names <= self.required | self.optional
        )


def _object(name: str, method: str, required: str = "", optional: str = "", *, write: bool) -> Operation:
    return Operation(
        name, method, required=frozenset(required.split()), optional=frozenset(optional.split()), write=write
    )


def _bucket(name: str, method: str, required: str, optional: str = "", *, write: bool) -> Operation:
    return Operation(name, method, True, frozenset(required.split()), frozenset(optional.split()), write)


# Deleting a version is left out: it destroys what deleting an object keeps.
_OPERATIONS = (
    _object("GetObject", "GET", "", "versionId partNumber", write=False),
    _object("HeadObject", "HEAD", "", "versionId partNumber", write=False),
    _object("PutObject", "PUT", write=True),
    _object("UploadPart", "PUT", "partNumber uploadId", write=True),
    _object("CreateMultipartUpload", "POST", "uploads", write=True),
    _object("CompleteMultipartUpload", "POST", "uploadId", write=True),
    _object("AbortMultipartUpload", "DELETE", "uploadId", write=True),
    _object("ListParts", "GET", "uploadId", "max-parts part-number-marker", write=True),
    _object("DeleteObject", "DELETE", write=True),
    _bucket(
        "ListObjectsV2",
        "GET",
        "list-type prefix",
        "delimiter continuation-token encoding-type max-keys start-after",
        write=False,
    ),
    _bucket("ListObjects", "GET", "prefix", "delimiter encoding-type marker max-keys", write=False),
    _bucket("DeleteObjects", "POST", "delete", write=True),
)


def operation(method: str, address: Address) -> Operation:
    """Which operation a request is, or NotAllowed."""
    for known in _OPERATIONS:
        if known.fits(method, address):
            return known
    names = ", ".join(sorted(address.query)) or "none"
    on = "an object" if address.key else "the bucket"
    raise NotAllowed(
        f"{method[:20]!a} on {on} with the query parameters {names[:200]} is not signed. Objects are read, "
        "written, copied, uploaded in parts and deleted; the bucket is listed with a prefix, and objects "
        "are deleted in bulk"
    )
