"""What all loops do."""

from __future__ import annotations

from frazil.stream.loops import rested


def test_waits_grow_to_a_bound_and_never_end() -> None:
    assert [rested(n) for n in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert rested(5, first=5.0, longest=300.0) == 80.0
    # More tries than the exponent of a float: an outage of a night.
    assert rested(10_000) == 30.0
