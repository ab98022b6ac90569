"""Every error frazil raises on purpose.

    FrazilError
    ├── InvalidInput                what was sent cannot be meant            fatal
    │   ├── InvalidConfig           a setting is wrong                       fatal
    │   ├── Unprocessable           well-formed, but cannot be applied       fatal
    │   └── PayloadTooLarge         over a size limit                        fatal
    ├── NotFound                                                             fatal
    │   ├── NoSuchProject
    │   ├── NoSuchWarehouse
    │   ├── NoSuchNamespace
    │   ├── NoSuchTable
    │   ├── NoSuchView
    │   └── NoSuchGenericTable
    ├── Unauthenticated             who is asking is not known               fatal
    ├── NotAllowed                  understood and refused                   fatal
    ├── Unsupported                 not offered by this server               fatal
    ├── Conflict                    the state does not allow it              fatal
    │   ├── AlreadyExists
    │   ├── NamespaceNotEmpty
    │   ├── PurgeUnfinished         files of dropped tables are on their way out
    │   └── CommitFailed            a requirement did not hold               retry
    ├── Superseded                  another writer of this pipeline took over fatal
    ├── SourceChanged               the log is not the one that was read     fatal
    ├── HistoryChanged              the table is not the one that was written fatal
    │   └── PlaceLost               where to go on must be said              fatal
    ├── BadRecord                   a record that cannot be decoded          fatal
    ├── RoundFailed                 a round wrote nothing; the next may      retry
    ├── CommitStateUnknown          it may or may not have happened          outcome unknown
    ├── StorageError                object storage said no or did not answer retry
    ├── Unavailable                 nothing was done, try again              retry
    └── ServiceError                an outside program failed to start       fatal

The `outcome` of a class tells a retry loop what to do: it asks the type, never the text.
`kind` is the name the error goes by on the wire; a caller may give a more exact one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class Outcome(StrEnum):
    FATAL = "fatal"
    RETRY = "retry"
    UNKNOWN = "unknown"


class FrazilError(Exception):
    """Base of all errors that frazil raises on purpose."""

    outcome: ClassVar[Outcome] = Outcome.FATAL
    kind: str = "FrazilError"

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if kind is not None:
            self.kind = kind


class InvalidInput(FrazilError):
    """What was sent cannot be meant; the message names the field and what is legal."""

    kind = "BadRequestException"


class InvalidConfig(InvalidInput):
    """A setting is missing, malformed or contradicts another."""

    kind = "InvalidConfig"


class Unprocessable(InvalidInput):
    """Well-formed, but it contradicts itself or an earlier request."""

    kind = "UnprocessableEntityException"


class PayloadTooLarge(InvalidInput):
    """The body is larger than the server reads."""

    kind = "PayloadTooLarge"


class NotFound(FrazilError):
    """The named thing does not exist, or the caller may not know that it does."""

    kind = "NotFoundException"


class NoSuchProject(NotFound):
    kind = "ProjectNotFound"


class NoSuchWarehouse(NotFound):
    kind = "NoSuchWarehouseException"


class NoSuchNamespace(NotFound):
    kind = "NoSuchNamespaceException"


class NoSuchTable(NotFound):
    kind = "NoSuchTableException"


class NoSuchView(NotFound):
    kind = "NoSuchViewException"


class NoSuchGenericTable(NotFound):
    kind = "NoSuchGenericTableException"


class Unauthenticated(FrazilError):
    """No token, or one that proves nothing; `code` is the error code of RFC 6750, if there was a token."""

    kind = "NotAuthorizedException"

    def __init__(self, message: str, *, kind: str | None = None, code: str | None = None) -> None:
        super().__init__(message, kind=kind)
        self.code = code


class NotAllowed(FrazilError):
    """Understood, and refused."""

    kind = "ForbiddenException"


class Unsupported(FrazilError):
    """Not offered by this server."""

    kind = "UnsupportedOperationException"


class Conflict(FrazilError):
    """The present state does not allow it."""

    kind = "ConflictException"


class AlreadyExists(Conflict):
    kind = "AlreadyExistsException"


class NamespaceNotEmpty(Conflict):
    kind = "NamespaceNotEmptyException"


class PurgeUnfinished(Conflict):
    """Files of dropped tables are still to be deleted; it works out once they are gone."""

    kind = "WarehouseHasUnfinishedTasks"


class CommitFailed(Conflict):
    """A requirement of the commit did not hold: refresh and try again."""

    outcome = Outcome.RETRY
    kind = "CommitFailedException"


class Superseded(FrazilError):
    """Another writer of the same pipeline took over; this one must not write any more."""

    kind = "Superseded"


class SourceChanged(FrazilError):
    """The log is not the one that was read: re-created, trimmed, another cluster."""

    kind = "SourceChanged"


class HistoryChanged(FrazilError):
    """The table's history does not hold the last commit of the pipeline, as after a rollback."""

    kind = "HistoryChanged"

    def __init__(self, found: str, advice: str = "", *, kind: str | None = None) -> None:
        """`advice`: what is to be done where a pipeline met it; for others, `found` alone is true."""
        super().__init__(f"{found}. {advice}" if advice else found, kind=kind)
        self.found = found


class PlaceLost(HistoryChanged):
    """And nobody knows where to go on: somebody must say."""


class BadRecord(FrazilError):
    """A record cannot be decoded; the message has its position and the reason."""

    kind = "BadRecord"
    #: Topic, partition, offset.
    position: tuple[str, int, int] | None = None

    @classmethod
    def at(cls, position: tuple[str, int, int] | None, message: str) -> BadRecord:
        error = cls(message)
        error.position = position
        return error


class RoundFailed(FrazilError):
    """A round ended before its commit: nothing is visible, and it can be tried again."""

    outcome = Outcome.RETRY
    kind = "RoundFailed"


class CommitStateUnknown(FrazilError):
    """The commit may or may not have landed: look before trying again."""

    outcome = Outcome.UNKNOWN
    kind = "CommitStateUnknownException"


class StorageError(FrazilError):
    """Object storage refused or did not answer."""

    outcome = Outcome.RETRY
    kind = "StorageError"


class Unavailable(FrazilError):
    """Nothing was done; the same request may succeed later."""

    outcome = Outcome.RETRY
    kind = "ServiceUnavailableException"


class ServiceError(FrazilError):
    """An outside program (database, object store, JVM) could not be found or started."""

    kind = "ServiceError"
