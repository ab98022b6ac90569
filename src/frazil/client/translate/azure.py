"""Which account an ADLS prefix is in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.client.credentials import VendedCredentials
from frazil.client.translate.table import require_scheme
from frazil.core.errors import InvalidInput

_AUTHORITY = re.compile(r"(?P<container>[^@/]+)@(?P<name>[a-z0-9]+)\.(?P<domain>dfs\.[a-z0-9.:-]+)")


@dataclass(frozen=True)
class Account:
    """`abfss://<container>@<name>.<domain>/…`."""

    name: str
    #: With the service in front: `dfs.core.windows.net`.
    domain: str
    container: str

    @property
    def host(self) -> str:
        return f"{self.name}.{self.domain}"

    @property
    def suffix(self) -> str:
        """The domain behind the service: `core.windows.net`."""
        return self.domain.removeprefix("dfs.")


def account_of(credentials: VendedCredentials, consumer: str) -> Account:
    require_scheme(credentials, consumer, "abfss", "abfs")
    match = _AUTHORITY.fullmatch(credentials.path.partition("/")[0])
    if match is None:
        raise InvalidInput(
            f"{credentials.prefix} is not of the form abfss://container@account.dfs.core.windows.net/path"
        )
    return Account(match["name"], match["domain"], match["container"])
