"""Calls into Spark's JVM: what goes wrong there, said in our own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from frazil.core import errors

_ICEBERG = "org.apache.iceberg.exceptions."
#: By Java's class or the nearest one above it; what is not here is a bug, or of a store.
_KINDS: dict[str, type[errors.FrazilError]] = {
    f"{_ICEBERG}CommitFailedException": errors.CommitFailed,
    f"{_ICEBERG}CommitStateUnknownException": errors.CommitStateUnknown,
    f"{_ICEBERG}NoSuchTableException": errors.NoSuchTable,
    f"{_ICEBERG}NoSuchNamespaceException": errors.NoSuchNamespace,
    f"{_ICEBERG}NoSuchWarehouseException": errors.NoSuchWarehouse,
    f"{_ICEBERG}NotAuthorizedException": errors.Unauthenticated,
    f"{_ICEBERG}ForbiddenException": errors.NotAllowed,
    f"{_ICEBERG}AlreadyExistsException": errors.AlreadyExists,
    f"{_ICEBERG}BadRequestException": errors.InvalidInput,
    f"{_ICEBERG}UnprocessableEntityException": errors.Unprocessable,
    f"{_ICEBERG}ValidationException": errors.Conflict,
    f"{_ICEBERG}NotFoundException": errors.StorageError,
    f"{_ICEBERG}RuntimeIOException": errors.StorageError,
    "java.io.UncheckedIOException": errors.StorageError,
    "java.lang.IllegalArgumentException": errors.InvalidInput,
    "java.lang.UnsupportedOperationException": errors.Unsupported,
    f"{_ICEBERG}ServiceUnavailableException": errors.Unavailable,
    f"{_ICEBERG}ServiceFailureException": errors.Unavailable,
    f"{_ICEBERG}RESTException": errors.Unavailable,
}
#: Packages of the libraries that speak to object stores.
_STORES = (".awssdk.", "com.azure.", ".google.cloud.", "org.apache.hadoop.fs.")


@contextmanager
def java_errors(what: str) -> Iterator[None]:
    """Errors of the block as ours: one line, no Java stack. `what` says what was tried."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except Py4JJavaError as error:
        raise _translated(what, error.java_exception) from None
    except CapturedException as error:
        raise _translated(what, error._origin) from None  # noqa: SLF001
    except (Py4JNetworkError, ConnectionError) as error:
        raise _jvm_ended(what) from error
    except Py4JError as error:
        # What Java threw comes with its trace; without one there was no answer at all.
        if "Trace:" not in str(error):
            raise _jvm_ended(what) from error
        raise errors.ServiceError(f"{what}: {_first_line(str(error))}") from None


def as_commit(error: errors.FrazilError) -> errors.FrazilError:
    """The same, for a request that may have changed the table: no answer says nothing about that."""
    if isinstance(error, (errors.Unavailable, errors.StorageError)):
        return errors.CommitStateUnknown(error.message)
    return error


def _translated(what: str, thrown: Any) -> errors.FrazilError:
    if thrown is None:
        return errors.ServiceError(f"{what}: Spark's JVM failed without saying why")
    found = thrown.getClass()
    name = str(found.getName())
    while str(found.getName()) not in _KINDS and found.getSuperclass() is not None:
        found = found.getSuperclass()
    kind = _KINDS.get(str(found.getName()))
    text = _first_line(str(thrown.getMessage() or name))
    deepest = _root(thrown)
    if deepest is not None:
        text = f"{text} ({_short(deepest)})"
    if kind is None and any(mark in name for mark in _STORES):
        kind = errors.StorageError
    if kind is None:
        return errors.ServiceError(f"{what}: {name.rpartition('.')[2]}: {text}")
    return kind(f"{what}: {text}")


def _root(thrown: Any) -> Any | None:
    """The cause at the bottom, if it is another than what was thrown."""
    cause, deepest = thrown.getCause(), None
    while cause is not None:
        deepest, cause = cause, cause.getCause()
    return deepest


def _short(thrown: Any) -> str:
    name = str(thrown.getClass().getSimpleName())
    return f"{name}: {_first_line(str(thrown.getMessage() or ''))}".rstrip(": ")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no reason given"


def _jvm_ended(what: str) -> errors.ServiceError:
    return errors.ServiceError(
        f"{what}: Spark's JVM ended. Nothing is lost: what was committed is in the table, the rest will "
        "be read again. Run it again, with more spark.driver.memory if it ended for want of memory"
    )
