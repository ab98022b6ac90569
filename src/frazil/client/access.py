"""How the client asks for keys to a table's files."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from frazil.core.errors import InvalidInput

DELEGATION = "X-Iceberg-Access-Delegation"
READ_ONLY = "X-Frazil-Access"


class Access(Enum):
    """What a request asks for."""

    NONE = "none"
    READ = "read"
    READ_WRITE = "read-write"

    @staticmethod
    def of(*, vended: bool, read_only: bool = False) -> Access:
        if read_only and not vended:
            raise InvalidInput("read_only narrows vended keys: ask for them with vended=True")
        return Access.NONE if not vended else Access.READ if read_only else Access.READ_WRITE


def access_headers(access: Access) -> Mapping[str, str]:
    """Keys that nobody asked for are not to be sent at all, so "none" is said too."""
    if access is Access.NONE:
        return {DELEGATION: "client-managed"}
    headers = {DELEGATION: "vended-credentials"}
    return headers | {READ_ONLY: "read"} if access is Access.READ else headers
