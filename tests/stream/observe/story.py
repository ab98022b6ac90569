"""Events of pipelines as a runner would send them."""

from __future__ import annotations

from frazil.stream.events import Claimed, RoundCommitted, RoundStarted


def claimed(pipeline: str = "orders", epoch: int = 3) -> Claimed:
    return Claimed(pipeline, "shop.orders", epoch, created_table=True, first_run=True)


def started(pipeline: str = "orders", *, round: int = 1, offsets: int = 100, lag: int = 40) -> RoundStarted:  # noqa: A002
    return RoundStarted(pipeline, round, offsets, lag, tasks=2)


def committed(
    pipeline: str = "orders", *, written: int = 90, lag: int = 40, total: int = 90
) -> RoundCommitted:
    return RoundCommitted(
        pipeline,
        round=1,
        snapshot_id=77,
        read=100,
        written=written,
        files=2,
        bytes=12_345,
        seconds=2.5,
        job_seconds=2.0,
        commit_seconds=0.5,
        lag=lag,
        total_read=total + 10,
        total_written=total,
        lags={"orders-topic": (lag - lag // 4, lag // 4)},
    )


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
