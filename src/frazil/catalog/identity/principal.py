"""The caller of a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whom an identity provider vouches for."""

    #: Which provider says so: two providers may both know an "alice".
    provider: str
    subject: str

    @property
    def id(self) -> str:
        """Lakekeeper's form, such as `oidc~alice`."""
        return f"{self.provider}~{self.subject}"


#: The caller of a server that asks nobody who they are.
ANONYMOUS = Principal("anonymous", "anonymous")
