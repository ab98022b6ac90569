"""Who is asking."""

from frazil.catalog.identity.bearer import Rejected
from frazil.catalog.identity.clients import Clients
from frazil.catalog.identity.guard import Guard
from frazil.catalog.identity.principal import ANONYMOUS, Principal, client_principal

__all__ = ["ANONYMOUS", "Clients", "Guard", "Principal", "Rejected", "client_principal"]
