"""What is read out of Spark's plan of a transform: its state, and whether its watermark is a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.stream.stateful.plans import is_complete, keeps_state
from frazil.stream.stateful.source import probe_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM source GROUP BY window(at, '1 hour')"
JOIN = (
    "SELECT l.id, l.at FROM source l JOIN source r "
    "ON l.id = r.id AND r.at BETWEEN l.at AND l.at + INTERVAL 1 HOUR"
)
#: SQL: whether it keeps state, whether the watermark says what is complete.
PLANS = {
    WINDOW: (True, True),
    f"WITH hours AS ({WINDOW}) SELECT hour.start, n FROM hours WHERE n > 1": (True, True),
    "SELECT DISTINCT id, at FROM source": (True, True),
    "SELECT id FROM source": (False, False),
    "WITH all_of_it AS (SELECT id, at FROM source) SELECT id FROM all_of_it": (False, False),
    JOIN: (True, False),
    f"SELECT window(at, '1 hour') AS hour, count(*) AS n FROM ({JOIN}) GROUP BY 1": (True, False),
    f"SELECT hour.start AS at FROM ({WINDOW}) UNION ALL SELECT at FROM source": (True, False),
    f"SELECT hour.start AS at FROM ({WINDOW}) UNION ALL SELECT at FROM source GROUP BY at": (True, True),
    "SELECT s.id FROM source s JOIN pages p ON s.id = p.id": (False, False),
    f"SELECT w.n FROM ({WINDOW}) w JOIN pages p ON w.n = p.id": (True, True),
}


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> DataFrame:
    session = spark.newSession()
    session.range(3).createOrReplaceTempView("pages")
    frame = probe_frame(session, "id bigint, at timestamp").withWatermark("at", "10 minutes")
    frame.createOrReplaceTempView("source")
    return frame


@pytest.mark.parametrize(("sql", "expected"), PLANS.items())
def test_sql(source: DataFrame, sql: str, expected: tuple[bool, bool]) -> None:
    made = source.sparkSession.sql(sql)
    assert (keeps_state(made), is_complete(made)) == expected


def test_deduplication(source: DataFrame) -> None:
    for made, complete in (
        (source.dropDuplicatesWithinWatermark(["id"]), True),
        (source.dropDuplicates(["id", "at"]), True),
        # Without the event time among the keys Spark forgets nothing and drops nothing.
        (source.dropDuplicates(["id"]), False),
    ):
        assert keeps_state(made)
        assert is_complete(made) is complete


def test_state_of_the_users_own(source: DataFrame) -> None:
    from pyspark.sql.streaming.state import GroupStateTimeout

    made = source.groupBy("id").applyInPandasWithState(
        lambda *_: iter(()), "id bigint", "n bigint", "append", GroupStateTimeout.NoTimeout
    )
    assert keeps_state(made)
    assert not is_complete(made)
