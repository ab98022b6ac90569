from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.core.moments import moment
from frazil.core.stamp import Stamp
from frazil.hot.tiering.status import HotStatus
from frazil.stream.status import PipelineStatus

#: The last microsecond of the year 9999, which stands for "never" in many a table.
NEVER = 253_402_300_799_999_999


@pytest.mark.parametrize(
    ("micros", "expected"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        (1_767_225_600_000_001, datetime(2026, 1, 1, 0, 0, 0, 1, UTC)),
        (NEVER, datetime.max.replace(tzinfo=UTC)),
        (NEVER + 1, datetime.max.replace(tzinfo=UTC)),
        (2**63 - 1, datetime.max.replace(tzinfo=UTC)),
        (-(2**63), datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_microseconds(micros: int, expected: datetime) -> None:
    assert moment(micros) == expected


def test_the_watermark_of_a_status() -> None:
    stamp = Stamp(pipeline="p", epoch=1, round=1, token="", source="x", positions={}, watermark=NEVER)
    hot, plain = HotStatus("a.b", "t", stamp=stamp), PipelineStatus("p", "a.b", stamp=stamp)
    assert hot.watermark == plain.watermark == datetime.max.replace(tzinfo=UTC)
