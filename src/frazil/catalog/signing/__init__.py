"""Remote signing: a client prepares a request to S3, the server judges it and signs it with its own key."""

from frazil.catalog.signing.reach import Reach
from frazil.catalog.signing.request import Allowed, Wanted, allowed, understood
from frazil.catalog.signing.signer import S3Signer, open_signer

__all__ = ["Allowed", "Reach", "S3Signer", "Wanted", "allowed", "open_signer", "understood"]
