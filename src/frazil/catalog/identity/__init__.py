"""Who is asking."""

from frazil.catalog.identity.principal import ANONYMOUS, Principal

__all__ = ["ANONYMOUS", "Principal"]
