"""What the server itself must know of AWS: how a request is signed."""

from frazil.catalog.aws.sigv4 import UNSIGNED_PAYLOAD, Keys, payload_hash, sign

__all__ = ["UNSIGNED_PAYLOAD", "Keys", "payload_hash", "sign"]
