"""Keys that a server vended: what they reach, until when, and in whose words they can be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from frazil.client.config import StorageConfig
from frazil.core.errors import InvalidInput, Unauthenticated, Unsupported

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Names under which a store's keys say when they end, in milliseconds since 1970; some have a host behind.
_EXPIRY = (
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token-expires-at-ms",
    "expiration-time",
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class VendedCredentials:
    """Keys for everything below `prefix`, until `expires_at`. Printing them shows neither keys nor tokens.

    Each `to_…` speaks the language of one consumer (see `frazil.client.translate`) and refuses keys that have
    expired. The object can be pickled, so it can be broadcast to the tasks of a job.
    """

    prefix: str
    config: StorageConfig
    expires_at: datetime | None = field(compare=False)

    def __init__(self, prefix: str, config: Mapping[str, str]) -> None:
        object.__setattr__(self, "prefix", prefix.rstrip("/"))
        object.__setattr__(self, "config", StorageConfig(config))
        object.__setattr__(self, "expires_at", _expiry(config))

    def __repr__(self) -> str:
        until = "no known end" if self.expires_at is None else self.expires_at.isoformat(timespec="seconds")
        return f"VendedCredentials({self.prefix!r}, until {until})"

    @property
    def scheme(self) -> str:
        """`s3`, `gs`, `abfss` or what else the prefix begins with."""
        return self.prefix.partition("://")[0]

    @property
    def path(self) -> str:
        """The prefix as pyarrow and fsspec want it: without the scheme."""
        return self.prefix.partition("://")[2]

    def expires_soon(self, margin: timedelta | float = 60.0) -> bool:
        """Whether less than `margin` (seconds) is left."""
        if self.expires_at is None:
            return False
        margin = margin if isinstance(margin, timedelta) else timedelta(seconds=margin)
        return datetime.now(UTC) + margin >= self.expires_at

    def require_valid(self) -> None:
        """Raise if the keys have expired: the store would only say that it does not know them."""
        if self.expires_soon(0.0):
            assert self.expires_at is not None, "what has no end cannot be near it"
            end = self.expires_at.isoformat(timespec="seconds")
            raise Unauthenticated(
                f"the keys for {self.prefix} expired at {end} by the clock of this machine; ask the server "
                "for new ones, or hold them in a Renewing"
            )

    def to_hadoop(self, gcs_provider: str | None = None) -> dict[str, str]:
        """Configuration of the Hadoop connector for this store: S3A, ABFS or Google's."""
        from frazil.client.translate import hadoop

        return hadoop.configuration(self, gcs_provider)

    def to_s3a(self) -> dict[str, str]:
        """Configuration of S3A, set for the bucket only."""
        from frazil.client.translate import hadoop

        return hadoop.s3a(self)

    def to_abfs(self) -> dict[str, str]:
        """Configuration of ABFS, set for the account only."""
        from frazil.client.translate import hadoop

        return hadoop.abfs(self)

    def to_gcs_connector(self, provider: str) -> dict[str, str]:
        """Configuration of Google's connector; `provider` is a class on your class path (see the docs)."""
        from frazil.client.translate import hadoop

        return hadoop.gcs_connector(self, provider)

    def to_pyarrow(self) -> FileSystem:
        """A pyarrow file system; `path` is the prefix inside it."""
        from frazil.client.translate import python

        return python.pyarrow_filesystem(self)

    def to_fsspec(self) -> dict[str, Any]:
        """The `storage_options` of s3fs, gcsfs or adlfs."""
        from frazil.client.translate import python

        return python.fsspec_options(self)

    def to_boto3(self) -> dict[str, Any]:
        """Arguments of `boto3.client("s3", …)` and `boto3.resource`."""
        from frazil.client.translate import python

        return python.boto3_arguments(self)

    def to_duckdb(self, name: str = "frazil") -> str:
        """A `CREATE SECRET` statement for DuckDB, for this prefix only. It holds the keys: do not log it."""
        from frazil.client.translate import duckdb

        return duckdb.secret_statement(self, name)

    def to_environment(self) -> dict[str, str]:
        """The environment variables that AWS tools read."""
        from frazil.client.translate import python

        return python.environment(self)


class Entry(Protocol):
    """One of the `storage-credentials` of an answer."""

    @property
    def prefix(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...


def chosen(
    found: Sequence[Entry], location: str | None, what: str, base: Mapping[str, str] | None = None
) -> VendedCredentials:
    """The credential for `location`: the one with the longest prefix above it, as the REST spec says.

    `base` is the `config` beside the credentials; it may hold endpoint and region.
    """
    if not found:
        raise Unsupported(
            f"no keys were vended for the {what}: its warehouse is local, has vending switched off, or "
            "offers remote signing only. On S3 it vends if its profile has sts-enabled and sts-role-arn"
        )
    if location is None and len(found) > 1:
        prefixes = ", ".join(sorted(entry.prefix for entry in found))
        raise InvalidInput(f"the {what} has keys for several places: say with location which ({prefixes})")
    matching = [entry for entry in found if location is None or covers(entry.prefix, location)]
    if not matching:
        raise InvalidInput(f"no key of the {what} reaches {location}")
    best = max(matching, key=lambda entry: len(entry.prefix))
    return VendedCredentials(best.prefix, {**(base or {}), **best.config})


def covers(prefix: str, location: str) -> bool:
    """Whether `location` is `prefix` or lies below it; `t10` does not lie below `t1`."""
    return f"{location.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")


def _expiry(config: Mapping[str, str]) -> datetime | None:
    """The earliest end that the keys name."""
    ends = [
        text
        for key, text in config.items()
        if any(key == name or key.startswith(f"{name}.") for name in _EXPIRY)
    ]
    try:
        return min((datetime.fromtimestamp(int(text) / 1000, UTC) for text in ends), default=None)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput("the vended keys name an end that is not in milliseconds since 1970") from None
