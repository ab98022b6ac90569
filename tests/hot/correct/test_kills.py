"""`frazil correct` killed at each of its steps: main is as it was or as it should be, and all can go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.hot.correct.conftest import RANGE, SECOND, Orders, Shop, row
from tests.hot.correct.test_correct import DOUBLED, fixed

from frazil.hot.correct import corrections, drop, publish
from frazil.hot.correct.listing import State

BEFORE = Counter([*(row(n) for n in range(3)), row(10, SECOND)])
AFTER = Counter([*(fixed(n) for n in range(3)), row(10, SECOND)])


def killed(orders: Orders, folder: Path, point: str, *arguments: str) -> None:
    """By SIGKILL, at the point."""
    shop = orders.shop
    sent = shop.client.uri.removesuffix("/")
    command = [sys.executable, "-m", "frazil.cli", "correct", *arguments, "--uri", sent, "--json"]
    keep = {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")}
    answer = subprocess.run(
        command,
        cwd=folder,
        env=keep | {"FRAZIL_FAILPOINT": point, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == -signal.SIGKILL, answer.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "state"),
    [
        pytest.param("correct.fork.before", None, marks=pytest.mark.exhaustive),
        ("correct.fork.after", State.UNFINISHED),
        ("correct.written", State.UNFINISHED),
        pytest.param("correct.write.before", State.UNFINISHED, marks=pytest.mark.exhaustive),
        pytest.param("correct.write.after", State.READY, marks=pytest.mark.exhaustive),
        ("correct.publish.before", State.READY),
        ("correct.publish.after", State.PUBLISHED),
    ],
)
def test_a_killed_correction(shop: Shop, tmp_path: Path, point: str, state: State | None) -> None:
    orders = shop.table(*BEFORE.elements(), version=3)
    files = orders.files()
    sql = DOUBLED.format(name=orders.name, range=RANGE)
    killed(orders, tmp_path, point, orders.name, "--where", RANGE, "--sql", sql, "--publish")
    found = corrections(orders.name, catalog=shop.client)
    assert [one.state for one in found] == ([] if state is None else [state])
    assert orders.rows() == (AFTER if state is State.PUBLISHED else BEFORE)
    for one in found:
        if state is State.UNFINISHED:
            drop(shop.spark, orders.name, one.id, catalog=shop.client)
            assert orders.files() == files
            continue
        done = publish(shop.spark, orders.name, one.id, catalog=shop.client)
        assert done.published == ("already" if state is State.PUBLISHED else "fast-forward")
        assert orders.rows() == AFTER
    assert set(orders.loaded().refs()) == {"main"}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("point", ["correct.drop.before", "correct.drop.after"])
def test_a_killed_drop(shop: Shop, tmp_path: Path, point: str) -> None:
    from tests.hot.correct.test_correct import correct

    orders = shop.table(*BEFORE.elements())
    made = correct(orders).correction
    killed(orders, tmp_path, point, "drop", orders.name, made.id, "--yes")
    there = [one.state for one in corrections(orders.name, catalog=shop.client)]
    assert there == ([State.READY] if point.endswith("before") else [])
    assert orders.rows() == BEFORE


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("point", ["correct.publish.before", "correct.publish.after"])
def test_a_killed_publication_where_main_went_on(shop: Shop, tmp_path: Path, point: str) -> None:
    from tests.hot.correct.test_correct import correct

    orders = shop.table(*BEFORE.elements(), version=3)
    made = correct(orders).correction
    orders.append(row(11, SECOND))
    killed(orders, tmp_path, point, "publish", orders.name, made.id)
    more = Counter([row(11, SECOND)])
    assert orders.rows() == (BEFORE if point.endswith("before") else AFTER) + more
    publish(shop.spark, orders.name, made.id, catalog=shop.client)
    assert orders.rows() == AFTER + more
