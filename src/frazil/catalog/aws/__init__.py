"""What the server itself must know of AWS: signing, sessions, identities, partitions."""

from frazil.catalog.aws.identity import KeySource, StaticKeys, SystemKeys
from frazil.catalog.aws.partitions import Partition, partition_of
from frazil.catalog.aws.sigv4 import UNSIGNED_PAYLOAD, Keys, payload_hash, sign

__all__ = [
    "UNSIGNED_PAYLOAD",
    "KeySource",
    "Keys",
    "Partition",
    "StaticKeys",
    "SystemKeys",
    "partition_of",
    "payload_hash",
    "sign",
]
