"""The settings of `frazil serve` and `frazil migrate`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from frazil.catalog.db.connect import masked
from frazil.core.addresses import is_loopback
from frazil.core.errors import InvalidConfig
from frazil.core.settings import setting

_HOME = Path("~/.frazil")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{32,}=*")
_MOST_CLOCK_SKEW = 300
_LOG_LEVELS = ("debug", "info", "warning", "error")


def _hidden(_value: str) -> str:
    return "***"


@dataclass(frozen=True)
class ServerSettings:
    """Everything that can be set; `frazil serve --show-config` prints it."""

    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8181, "Port to listen on; 0 takes a free one.")
    data_dir: Path = setting(  # noqa: RUF009 (a Path does not change)
        _HOME, "Where the SQLite file, the default warehouse and the secret key live."
    )
    database_url: str | None = setting(
        None,
        "postgresql://user:password@host/database; without it, a SQLite file in the data directory.",
        mask=masked,
    )
    base_uri: str | None = setting(None, "The URL that clients reach the server at, if it is behind a proxy.")
    encryption_key: str | None = setting(
        None,
        "Key that seals stored credentials (64 hex digits); without it, one is made in the data directory.",
        mask=_hidden,
        flag=False,
    )
    insecure: bool = setting(False, "Listen on other addresses than loopback without authentication.")
    bootstrap_token: str | None = setting(
        None,
        "A bearer token that is always accepted, for scripts (at least 32 letters, digits or ._~+/-).",
        mask=_hidden,
        flag=False,
    )
    openid_provider_uri: str | None = setting(
        None,
        "Issuer of an OpenID provider whose tokens are accepted; several: name=URI, separated by commas.",
    )
    openid_audience: str | None = setting(
        None, "Audiences, separated by commas, of which a token must name one; without it, any is accepted."
    )
    openid_additional_issuers: str | None = setting(
        None,
        "Other issuers that the provider's tokens may name, separated by commas (name=issuer if several).",
    )
    openid_subject_claim: str = setting(
        "oid,sub", "The claims that may say who the caller is: the first one counts."
    )
    clock_skew_seconds: int = setting(60, "How far the clocks of those who issue tokens may be off.")
    local_paths: str | None = setting(
        None,
        "Directories, separated by colons, that local warehouses may be made in; without it, the data "
        "directory and, while the server listens on loopback only, any other.",
    )
    aws_system_identities: bool = setting(False, "Let warehouses use the AWS identity of the server itself.")
    gcp_system_identities: bool = setting(
        False, "Let warehouses use the Google identity of the server itself."
    )
    azure_system_identities: bool = setting(
        False, "Let warehouses use the Azure identity of the server itself."
    )
    default_warehouse: str = setting("default", "Name of the warehouse that exists from the start.")
    metadata_cache_mb: int = setting(32, "Memory for table metadata, in MiB.")
    access_log: bool = setting(True, "Log a line for each request.")
    log_level: str = setting("info", "debug, info, warning or error.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", self.data_dir.expanduser().absolute())
        if not 0 <= self.port <= 65535:
            raise InvalidConfig(f"port {self.port} is not between 0 and 65535")
        if self.log_level not in _LOG_LEVELS:
            raise InvalidConfig(f"log-level {self.log_level!r} is not one of {', '.join(_LOG_LEVELS)}")
        if self.metadata_cache_mb < 1:
            raise InvalidConfig("metadata-cache-mb must be at least 1")
        if not 0 <= self.clock_skew_seconds <= _MOST_CLOCK_SKEW:
            raise InvalidConfig(f"clock-skew-seconds must be between 0 and {_MOST_CLOCK_SKEW}")
        if self.bootstrap_token is not None and not _TOKEN.fullmatch(self.bootstrap_token):
            raise InvalidConfig(
                "bootstrap-token must have at least 32 characters, letters, digits or ._~+/-; make one with: "
                "openssl rand -hex 32"
            )
        if self.encryption_key is not None and not _is_key(self.encryption_key):
            raise InvalidConfig("encryption-key must be 64 hex digits; make one with: openssl rand -hex 32")

    def allows_local(self, path: str) -> bool:
        """Whether a local warehouse may be made at `path`, an absolute path without links."""
        if self.local_paths is None and self.on_loopback:
            return True
        roots = [*(self.local_paths or "").split(":"), str(self.data_dir)]
        return any(root and f"{path}/".startswith(f"{os.path.realpath(root)}/") for root in roots)

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """The names by which a server on loopback may be called; None: any."""
        if not self.on_loopback:
            return None
        proxy = urlsplit(self.base_uri).hostname if self.base_uri else None
        return frozenset({*_LOOPBACK, "[::1]", self.host, *([proxy] if proxy else [])})

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def key_file(self) -> Path:
        """Where the key lies that seals stored credentials, if it is not given."""
        return self.data_dir / "secret.key"

    @property
    def pending_key_file(self) -> Path:
        """Where the next key lies while `frazil key rotate` runs."""
        return self.data_dir / "secret.key.new"

    @property
    def database(self) -> str:
        """The database URL in force."""
        return self.database_url or f"sqlite://{self.data_dir / 'catalog.db'}"


def _is_key(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == 32
    except ValueError:
        return False
