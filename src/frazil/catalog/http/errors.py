"""The one place where errors become HTTP statuses."""

from __future__ import annotations

from frazil.catalog.http.message import Response, json_bytes
from frazil.core import errors

_STATUS: tuple[tuple[type[errors.FrazilError], int], ...] = (
    (errors.Unprocessable, 422),
    (errors.PayloadTooLarge, 413),
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.Unauthenticated, 401),
    (errors.NotAllowed, 403),
    (errors.Unsupported, 406),
    (errors.Conflict, 409),
    (errors.CommitStateUnknown, 500),
    (errors.StorageError, 503),
    (errors.Unavailable, 503),
)
#: What is wrong stands at the beginning of a message, where it is wrong often at its end.
_MESSAGE_END = 1000


def status_of(error: errors.FrazilError) -> int:
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 500


def error_body(status: int, kind: str, message: str) -> bytes:
    """The REST spec's error shape. A message that quotes megabytes of the request is cut in its middle."""
    if len(message) > 2 * _MESSAGE_END:
        message = f"{message[:_MESSAGE_END]} […] {message[-_MESSAGE_END:]}"
    return json_bytes({"error": {"message": message, "type": kind, "code": status}})


def error_response(error: errors.FrazilError) -> Response:
    status = status_of(error)
    headers = None
    if status == 503:
        # Only ever sent when nothing was done, so trying again is safe.
        headers = [(b"retry-after", b"1")]
    elif isinstance(error, errors.Unauthenticated):
        headers = [(b"www-authenticate", _challenge(error.code))]
    return Response(status, error_body(status, error.kind, error.message), headers=headers)


def _challenge(code: str | None) -> bytes:
    """RFC 6750: a caller that sent no token is told no error code."""
    return b'Bearer realm="frazil"' + (f', error="{code}"'.encode() if code else b"")
