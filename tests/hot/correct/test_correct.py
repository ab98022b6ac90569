"""A range is computed again on a branch, compared and published; what does not fit changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from tests.hot.correct.conftest import FIRST, RANGE, SECOND, Orders, Shop, row

import frazil
from frazil.client.naming import identifier
from frazil.core.errors import Conflict, InvalidInput, NotFound
from frazil.hot.correct import corrections, drop, publish
from frazil.hot.correct.api import Corrected
from frazil.hot.correct.difference import Tally
from frazil.hot.correct.replacing import Replacing
from frazil.lake.changelog import read_changes
from frazil.lake.commit import Attempt
from frazil.lake.correction import CorrectionBranch
from frazil.lake.table import LakeTable

ZONE = "spark.sql.session.timeZone"
DOUBLED = (
    "SELECT id, day, 'fixed' AS word, CAST(amount * 2 AS decimal(10, 2)) AS amount FROM {name} WHERE {range}"
)
TWICE = (
    "SELECT id, day, word, amount FROM {name} WHERE {range} UNION ALL "
    "SELECT id, day, 'twice', amount FROM {name} WHERE {range}"
)
NEW = "SELECT 5L AS id, DATE '2026-01-01' AS day, 'new' AS word, CAST(1 AS decimal(10, 2)) AS amount"


def correct(orders: Orders, sql: str = DOUBLED, where: str = RANGE, *, publish: bool = False) -> Corrected:
    text = sql.format(name=orders.name, range=where)
    return frazil.correct(
        orders.shop.spark, orders.name, where=where, sql=text, publish=publish, catalog=orders.shop.client
    )


def publish_it(orders: Orders, made: Corrected) -> Corrected:
    return publish(orders.shop.spark, orders.name, made.correction.id, catalog=orders.shop.client)


def fixed(number: int) -> tuple[object, ...]:
    return (number, FIRST, "fixed", row(number)[3] * 2)


@pytest.mark.parametrize(
    ("version", "parts", "key"),
    [(2, [], []), (3, ["day"], ["id"]), (2, ["bucket(2, id)"], ["id"]), (3, [], [])],
)
def test_a_range_is_replaced_on_a_branch_and_then_in_main(
    shop: Shop, version: int, parts: list[str], key: list[str]
) -> None:
    before = [*(row(n) for n in range(4)), row(10, SECOND), row(11, SECOND)]
    orders = shop.table(*before, version=version, parts=parts, key=key)
    # A delete that is there must stay, and a file must not have two vectors.
    orders.sql("DELETE FROM {table} WHERE id IN (3, 11)")
    kept = [row(10, SECOND)]
    head = orders.head()
    made = correct(orders)
    assert orders.head() == head
    assert orders.rows() == Counter([*(row(n) for n in range(3)), *kept])
    after = Counter([*(fixed(n) for n in range(3)), *kept])
    assert orders.rows(made.correction.branch) == after
    assert made.difference is not None
    keyed = bool(key)
    assert made.difference.total == Tally(
        3,
        3,
        0 if keyed else 3,
        0 if keyed else 3,
        3 if keyed else 0,
        {"amount": Decimal("0.30")} | ({} if keyed else {"id": 3}),
        {"amount": Decimal("0.60")} | ({} if keyed else {"id": 3}),
    )
    if parts == ["day"]:
        assert list(made.difference.partitions) == ["day=2026-01-01"]
    done = publish_it(orders, made)
    assert done.published == "fast-forward"
    assert orders.head() == made.correction.snapshot
    assert orders.rows() == after
    assert set(orders.loaded().refs()) == {"main"}
    again = publish_it(orders, made)
    assert again.published == "already"
    assert orders.head() == made.correction.snapshot


@pytest.mark.parametrize("version", [2, 3])
def test_main_goes_on_and_the_range_is_replaced_there(shop: Shop, version: int) -> None:
    _replaced_while_main_goes_on(shop, version)


def test_an_object_store(s3_shop: Shop) -> None:
    _replaced_while_main_goes_on(s3_shop, 3)


def _replaced_while_main_goes_on(shop: Shop, version: int) -> None:
    orders = shop.table(*(row(n) for n in range(3)), row(10, SECOND), version=version)
    made = correct(orders)
    orders.append(row(11, SECOND))
    orders.sql("DELETE FROM {table} WHERE id = 10")
    head = orders.head()
    done = publish_it(orders, made)
    assert (done.published, done.recomputed) == ("overwrite", False)
    assert orders.rows() == Counter([*(fixed(n) for n in range(3)), row(11, SECOND)])
    published = orders.loaded().current_snapshot()
    assert published is not None
    assert published.parent_snapshot_id == head
    assert done.difference is not None
    assert done.difference.total.before == done.difference.total.after == 3


def test_rows_that_came_into_the_range_are_computed_again(shop: Shop) -> None:
    orders = shop.table(*(row(n) for n in range(3)), key=["id"], version=3)
    made = correct(orders)
    orders.append(row(7))
    orders.sql("DELETE FROM {table} WHERE id = 1")
    done = publish_it(orders, made)
    assert (done.published, done.recomputed) == ("overwrite", True)
    assert orders.rows() == Counter(fixed(n) for n in (0, 2, 7))


def test_a_compaction_does_not_matter(shop: Shop) -> None:
    orders = shop.table(*(row(n) for n in range(3)), row(10, SECOND), version=3)
    orders.append(row(11, SECOND))
    made = correct(orders)
    orders.sql(
        "CALL " + shop.catalog + ".system.rewrite_data_files(table => '{table}', "
        "options => map('rewrite-all', 'true'))"
    )
    done = publish_it(orders, made)
    assert (done.published, done.recomputed) == ("overwrite", False)
    assert orders.rows() == Counter([*(fixed(n) for n in range(3)), row(10, SECOND), row(11, SECOND)])


def test_change_streams_tell_it_from_news(shop: Shop) -> None:
    orders = shop.table(*(row(n) for n in range(2)), key=["id"])
    first = orders.head()
    made = correct(orders)
    orders.append(row(9, SECOND))
    publish_it(orders, made)
    rows = [one for batch in read_changes(shop.client, orders.name, since=first) for one in batch.to_pylist()]
    told = {(one["id"], one["_change_type"], one["_correction"]) for one in rows}
    text = f'{{"v":1,"id":"{made.correction.id}","range":"{RANGE}","fork":{first}}}'
    assert told == {
        (9, "INSERT", None),
        *((n, kind, text) for n in (0, 1) for kind in ("UPDATE_BEFORE", "UPDATE_AFTER")),
    }


@pytest.mark.parametrize(
    ("sql", "where", "said"),
    [
        (DOUBLED.replace("WHERE {range}", ""), RANGE, "rows outside of the range .* such as .*2026-01-02"),
        ("SELECT id, day, word FROM {name} WHERE {range}", RANGE, "the table has 'amount'"),
        ("SELECT id, day, word, amount, 1 AS more FROM {name}", RANGE, "no column 'more'"),
        ("SELECT id, day, word, amount * 1.5 AS amount FROM {name}", RANGE, "'amount' is decimal"),
        ("SELECT id, day, word, amount FROM nowhere.table", RANGE, "Spark does not take the query"),
        ("DROP TABLE x", RANGE, "a command"),
        (DOUBLED, "colour = 1", "no range of .*id, day, word, amount"),
        (DOUBLED, "day = current_date()", "may be another one"),
        (DOUBLED, "rand() > 0.5", "may be another one"),
        (
            TWICE,
            RANGE,
            "several rows of one key",
        ),
        (
            "SELECT id, DATE '2026-01-01' AS day, word, amount FROM {name}",
            RANGE,
            "has the key .*10.* outside of the range",
        ),
    ],
)
def test_what_does_not_fit_changes_nothing(shop: Shop, sql: str, where: str, said: str) -> None:
    orders = _shared(shop)
    before, files = orders.loaded().metadata_location, orders.files()
    with pytest.raises((InvalidInput, Conflict), match=said):
        correct(orders, sql, where)
    assert orders.loaded().metadata_location == before
    assert orders.files() == files


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"where": RANGE},
        {"sql": DOUBLED},
        {"where": RANGE, "offsets": "orders=0:0-2"},
        {"where": RANGE, "sql": DOUBLED, "offsets": "orders=0:0-2"},
    ],
)
def test_a_range_is_given_in_one_way(given: dict[str, Any]) -> None:
    spark = Mock()
    with pytest.raises(InvalidInput, match="a range is given by"):
        frazil.correct(spark, "shop.orders", **given)
    assert spark.mock_calls == []


_made: dict[str, Orders] = {}


def _shared(shop: Shop) -> Orders:
    """Nobody changes it."""
    if "shared" not in _made:
        _made["shared"] = shop.table(row(1), row(10, SECOND), key=["id"])
    return _made["shared"]


def test_listed_dropped_and_stale(shop: Shop) -> None:
    orders = shop.table(row(1), row(10, SECOND))
    made, other = correct(orders), correct(orders)
    found = {one.id: one for one in corrections(orders.name, catalog=shop.client)}
    assert {one.state for one in found.values()} == {"ready"}
    assert found[made.correction.id].range == RANGE
    assert found[made.correction.id].recipe is not None
    drop(shop.spark, orders.name, other.correction.id, catalog=shop.client)
    with pytest.raises(NotFound, match=f"There are: {made.correction.id}"):
        publish_it(orders, other)
    # Somebody else wrote to the branch: that is not what was looked at.
    orders.sql(f"DELETE FROM {{table}}.`branch_{made.correction.branch}` WHERE id = 10")
    with pytest.raises(Conflict, match="is stale"):
        publish_it(orders, made)
    drop(shop.spark, orders.name, made.correction.id, catalog=shop.client)
    assert corrections(orders.name, catalog=shop.client) == []
    assert orders.rows() == Counter([row(1), row(10, SECOND)])


@pytest.mark.parametrize("place", [(CorrectionBranch, "publish"), (Replacing, "at")])
def test_two_publish_the_same(shop: Shop, monkeypatch: pytest.MonkeyPatch, place: tuple[type, str]) -> None:
    """The other one is quicker: before this one looked at main, or before it committed."""
    orders = shop.table(row(1), row(10, SECOND))
    made = correct(orders)
    orders.append(row(11, SECOND))
    real, others = getattr(*place), list[Corrected]()

    def slow(*given: Any) -> Any:
        if not others:
            monkeypatch.undo()
            others.append(publish_it(orders, made))
        return real(*given)

    monkeypatch.setattr(*place, slow)
    done = publish_it(orders, made)
    assert done.correction.snapshot == others[0].correction.snapshot == orders.head()
    assert orders.rows() == Counter([fixed(1), row(10, SECOND), row(11, SECOND)])


@pytest.mark.parametrize("moved", [False, True], ids=["fast-forward", "overwrite"])
@pytest.mark.parametrize("quick", ["publish", "drop", "write"])
def test_one_publishes_and_another_drops(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, quick: str, moved: bool
) -> None:
    """The slow one has built its commit when the quick one's lands: it fails, and says why."""
    orders = shop.table(row(1), row(10, SECOND))
    made = correct(orders)
    there = [row(10, SECOND)]
    if moved:
        orders.append(row(11, SECOND))
        there.append(row(11, SECOND))

    def dropped() -> object:
        return drop(shop.spark, orders.name, made.correction.id, catalog=shop.client)

    others: dict[str, Callable[[], object]] = {
        "publish": lambda: publish_it(orders, made),
        "drop": dropped,
        "write": lambda: orders.sql(f"DELETE FROM {{table}}.`branch_{made.correction.branch}` WHERE id = 1"),
    }
    real = Attempt.send

    def slow(self: Attempt[Any]) -> None:
        monkeypatch.undo()
        others[quick]()
        real(self)

    monkeypatch.setattr(Attempt, "send", slow)
    told = {"publish": "was published meanwhile", "drop": "was dropped", "write": "when it was looked at"}
    with pytest.raises(Conflict, match=told[quick]):
        publish_it(orders, made) if quick == "drop" else dropped()
    assert orders.rows() == Counter([fixed(1) if quick == "publish" else row(1), *there])
    states = {"publish": ["published"], "drop": [], "write": ["stale"]}
    assert [one.state for one in corrections(orders.name, catalog=shop.client)] == states[quick]


def test_a_table_with_capitals_in_its_name(shop: Shop) -> None:
    orders = shop.table(row(1), row(10, SECOND), prefix="Orders")
    publish_it(orders, correct(orders))
    assert orders.rows() == Counter([fixed(1), row(10, SECOND)])


def test_times_are_those_of_the_session_that_it_was_made_in(shop: Shop) -> None:
    """The second of January begins in Oslo while it is the first in UTC."""
    orders = shop.table(row(1), row(10, SECOND))
    where = "CAST(day AS TIMESTAMP) < TIMESTAMP '2026-01-01 23:30:00Z'"
    zone = str(shop.spark.conf.get(ZONE))
    shop.spark.conf.set(ZONE, "Europe/Oslo")
    try:
        made = correct(orders, where=where)
    finally:
        shop.spark.conf.set(ZONE, zone)
    orders.append(row(20, date(2026, 2, 1)))
    assert publish_it(orders, made).published == "overwrite"
    assert str(shop.spark.conf.get(ZONE)) == zone
    both = [fixed(1), (10, SECOND, "fixed", row(10)[3] * 2)]
    assert orders.rows() == Counter([*both, row(20, date(2026, 2, 1))])


def test_the_branch_expires_as_versions_before_1_10_of_iceberg_do_it(shop: Shop) -> None:
    """They look at what main's history says of its commits, not at which files are still there."""
    orders = shop.table(row(1), row(10, SECOND))
    made = correct(orders)
    orders.append(row(11, SECOND))
    assert publish_it(orders, made).published == "overwrite"
    table = shop.lake.load(*identifier(orders.name))
    before = table.operations.current()
    assert made.correction.snapshot is not None
    change = table.java.expireSnapshots().expireOlderThan(0).expireSnapshotId(made.correction.snapshot)
    change.cleanExpiredFiles(False).commit()
    table.refresh()
    _clean_by_increments(shop, table, before, table.operations.current())
    assert orders.rows() == Counter([fixed(1), row(10, SECOND), row(11, SECOND)])


def _clean_by_increments(shop: Shop, table: LakeTable, before: Any, after: Any) -> None:
    """What `RemoveSnapshots` did wherever main was the only branch."""
    jvm: Any = shop.spark._jvm
    loader = table.operations.getClass().getClassLoader()
    kind = jvm.java.lang.Class.forName("org.apache.iceberg.IncrementalFileCleanup", True, loader)
    made = next(iter(kind.getDeclaredConstructors()))
    made.setAccessible(True)
    threads = jvm.java.util.concurrent.Executors.newSingleThreadExecutor()
    try:
        given = _objects(shop, table.operations.io(), threads, threads, None)
        cleanup = made.newInstance(given)
        method = next(one for one in kind.getMethods() if one.getName() == "cleanFiles")
        method.setAccessible(True)
        level = next(one for one in method.getParameterTypes() if one.isEnum()).getEnumConstants()
        everything = next(one for one in level if str(one) == "ALL")
        method.invoke(cleanup, _objects(shop, before, after, everything))
    finally:
        threads.shutdown()


def _objects(shop: Shop, *values: Any) -> Any:
    gateway: Any = shop.spark.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made


def test_main_moved_to_the_branch_by_another_tool(shop: Shop) -> None:
    orders = shop.table(row(1), row(10, SECOND))
    made = correct(orders).correction
    orders.sql(f"CALL {shop.catalog}.system.fast_forward('{{table}}', 'main', '{made.branch}')")
    assert [one.state for one in corrections(orders.name, catalog=shop.client)] == ["published"]
    drop(shop.spark, orders.name, made.id, catalog=shop.client)
    assert set(orders.loaded().refs()) == {"main"}
    assert orders.rows() == Counter([fixed(1), row(10, SECOND)])
    with pytest.raises(Conflict, match="is published"):
        drop(shop.spark, orders.name, made.id, catalog=shop.client)


def test_a_range_without_rows_and_a_query_without(shop: Shop) -> None:
    orders = shop.table(row(10, SECOND))
    made = correct(orders, NEW)
    assert made.difference is not None
    assert (made.difference.total.added, made.difference.total.removed) == (1, 0)
    publish_it(orders, made)
    assert orders.rows() == Counter([row(10, SECOND), (5, FIRST, "new", Decimal("1.00"))])
    done = correct(orders, "SELECT * FROM {name} WHERE false", publish=True)
    assert done.difference is not None
    assert (done.difference.total.added, done.difference.total.removed) == (0, 1)
    assert orders.rows() == Counter([row(10, SECOND)])
