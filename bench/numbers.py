"""Numbers that look random, each following from another one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Mixed = npt.NDArray[np.uint64]
_SEED = 0x5EED_F0A7


def mix(ids: Ids) -> Mixed:
    """The finaliser of SplitMix64: what comes out compresses as badly as chance."""
    with np.errstate(over="ignore"):
        z = (ids.astype(np.uint64) + np.uint64(_SEED)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Mixed = z ^ (z >> np.uint64(31))
    return mixed


def part(mixed: Mixed, shift: int, below: int) -> Ids:
    """Some of the bits as a number below another one."""
    found: Ids = ((mixed >> np.uint64(shift)) % np.uint64(below)).astype(np.int64)
    return found
