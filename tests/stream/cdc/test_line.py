"""How the lanes of a loop fare."""

from __future__ import annotations

import time
from typing import Any, cast

from frazil.core.errors import Unavailable
from frazil.stream.cdc.lane import Lane
from frazil.stream.cdc.line import Line


def line(**state: Any) -> Line:
    return Line(cast("Lane", None), **state)


def test_who_has_more_to_read() -> None:
    assert line(lags=(0, 3)).waiting
    assert line(past=5).waiting
    assert not line(lags=(0, 0)).waiting
    assert not line(lags=(0, 3), rests_until=time.monotonic() + 3600).waiting
    # What a table that stopped has not read hurries nobody.
    assert not line(lags=(0, 3), error=Unavailable("the store is gone")).waiting
