"""Which AWS a region belongs to: ARNs and host names differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """The first part of ARNs, and the domain of the services."""

    arn: str
    domain: str


_STANDARD = Partition("aws", "amazonaws.com")
_BY_PREFIX = {
    "cn-": Partition("aws-cn", "amazonaws.com.cn"),
    "us-gov-": Partition("aws-us-gov", "amazonaws.com"),
}


def partition_of(region: str) -> Partition:
    """The partition of an AWS region.

    >>> partition_of("cn-north-1").arn
    'aws-cn'
    """
    for prefix, partition in _BY_PREFIX.items():
        if region.startswith(prefix):
            return partition
    return _STANDARD
