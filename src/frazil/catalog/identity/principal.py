"""The caller of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

UserType = Literal["human", "application"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whom an identity provider vouches for."""

    #: Which provider says so: two providers may both know an "alice".
    provider: str
    subject: str
    #: What to call them; not part of who they are.
    name: str = field(default="", compare=False)
    email: str | None = field(default=None, compare=False)
    user_type: UserType = field(default="application", compare=False)

    @property
    def id(self) -> str:
        """Lakekeeper's form, such as `oidc~alice`."""
        return f"{self.provider}~{self.subject}"


#: The caller of a server that asks nobody who they are.
ANONYMOUS = Principal("anonymous", "anonymous", name="anonymous", user_type="human")
#: The holder of the token that the server was started with.
BOOTSTRAP = Principal("static", "bootstrap", name="bootstrap")


def client_principal(client_id: str) -> Principal:
    """A client of our own token endpoint."""
    return Principal("client", client_id, name=client_id)
