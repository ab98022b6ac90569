"""How the lanes of a loop fare."""

from __future__ import annotations

import time
from typing import cast

from frazil.core.errors import Unavailable
from frazil.stream.cdc.lane import Lane
from frazil.stream.cdc.line import Line


def test_who_has_more_to_read() -> None:
    line = Line(cast("Lane", None), lags=(0, 3))
    assert line.waiting
    line.rests_until = time.monotonic() + 3600
    assert not line.waiting
    line.rests_until, line.lags, line.past = 0.0, (0, 0), 5
    assert line.waiting
    # What a table that stopped has not read hurries nobody.
    line.error = Unavailable("the store is gone")
    assert not line.waiting
