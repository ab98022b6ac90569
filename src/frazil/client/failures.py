"""What an answer that is no success means: one of the errors that the server itself raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from frazil.client.flow import Answer, Request
from frazil.core import errors
from frazil.core.errors import FrazilError

#: Lakekeeper's names for what the tree has another name for.
_ALSO: dict[str, type[FrazilError]] = {
    "GenericTableAlreadyExists": errors.AlreadyExists,
    "WarehouseAlreadyExists": errors.AlreadyExists,
    "RoleNameAlreadyExists": errors.AlreadyExists,
    "UserAlreadyExists": errors.AlreadyExists,
    "WarehouseNotActive": errors.NoSuchWarehouse,
    "ConcurrentUpdateError": errors.CommitFailed,
}
_BY_STATUS: dict[int, type[FrazilError]] = {
    400: errors.InvalidInput,
    401: errors.Unauthenticated,
    403: errors.NotAllowed,
    404: errors.NotFound,
    405: errors.Unsupported,
    406: errors.Unsupported,
    409: errors.Conflict,
    413: errors.PayloadTooLarge,
    419: errors.Unauthenticated,
    422: errors.Unprocessable,
    429: errors.Unavailable,
    501: errors.Unsupported,
    503: errors.Unavailable,
}
#: What a status may mean beside its own class and the classes below that. 503 is also how the server says
#: that object storage failed, and how some servers say that they do not know what became of a commit.
_MORE_EXACT: dict[type[FrazilError], tuple[type[FrazilError], ...]] = {
    errors.Unavailable: (errors.Unavailable, errors.StorageError, errors.CommitStateUnknown),
}
#: With 429 and 503 nothing was done. The others settle nothing, so only what may be repeated is repeated.
TRY_AGAIN = frozenset({429, 500, 502, 503, 504})
READS = frozenset({"GET", "HEAD"})


class _Detail(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""


class _Error(msgspec.Struct, frozen=True):
    """A token endpoint's error is a word (RFC 6749), a catalog's an object."""

    error: _Detail | str
    error_description: str = ""


def failure_of(request: Request, answer: Answer) -> FrazilError:
    """The error of an answer, by its type if that is known, else by its status."""
    detail = _detail(answer)
    if answer.status >= 500 and answer.status not in (501, 503):
        return _unsettled(request, answer, detail)
    general = _BY_STATUS.get(answer.status, errors.InvalidInput if answer.status < 500 else FrazilError)
    if detail is None:
        return general(_foreign(request, answer))
    exact = _KINDS.get(detail.type)
    # A type that contradicts the status is not believed: retries go by the class.
    chosen = exact if exact is not None and issubclass(exact, _MORE_EXACT.get(general, general)) else general
    message = detail.message or f"{request.method} {request.path}: {answer.status} {detail.type}"
    return chosen(message, kind=detail.type or None)


def retry_after(answer: Answer) -> float | None:
    """The seconds that the server asks to wait: a number or a date."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def sentence(text: str) -> str:
    """A message that others follow."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def unknown_outcome(request: Request, why: str) -> errors.CommitStateUnknown:
    """Sent, and no answer that settles it."""
    return errors.CommitStateUnknown(
        f"{request.method} {request.path} may or may not have been done ({why}); look before you repeat it"
    )


def _unsettled(request: Request, answer: Answer, detail: _Detail | None) -> FrazilError:
    """500, 502 and 504 say nothing about whether a change was made."""
    said = f": {detail.message}" if detail is not None and detail.message else ""
    why = f"the server answered {answer.status}{said}"
    if request.method in READS:
        kind = detail.type if detail is not None and detail.type else None
        return errors.Unavailable(f"{request.method} {request.path}: {why}", kind=kind)
    return unknown_outcome(request, why)


def _detail(answer: Answer) -> _Detail | None:
    try:
        found = msgspec.json.decode(answer.body, type=_Error)
    except msgspec.DecodeError:
        return None
    if isinstance(found.error, _Detail):
        return found.error
    return _Detail(": ".join(filter(None, (found.error, found.error_description))), found.error)


def _foreign(request: Request, answer: Answer) -> str:
    """A proxy, a load balancer or another program answered."""
    where = f"{request.method} {request.path}: {answer.status}"
    if request.method == "HEAD" or not answer.body:
        return where
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "nowhere")
        return f"{where}, a redirect to {target}, which is not followed; give the final address"
    kind = answer.headers.get("content-type", "no content type")
    return f"{where} with a body ({kind}) that no catalog sends; is this the address of the catalog server?"


def _tree(root: type[FrazilError]) -> Iterator[type[FrazilError]]:
    for child in root.__subclasses__():
        yield child
        yield from _tree(child)


_KINDS: Mapping[str, type[FrazilError]] = {
    child.kind: child for child in _tree(FrazilError) if child.__module__ == errors.__name__
} | _ALSO
