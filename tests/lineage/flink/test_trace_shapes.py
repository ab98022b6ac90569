"""Plans made by hand after what Flink's own code prints, for shapes that no captured job has."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.lineage.flink.plan.reading import read_plan
from frazil.lineage.flink.trace import trace
from frazil.lineage.model import Direction, TracedJob

SCAN = "TableSourceScan(table=[[c, d, orders]], fields=[id, v])"


def _node(id_: str, description: str, *inputs: str) -> dict[str, Any]:
    return {
        "id": id_,
        "description": description,
        "inputs": [{"id": source, "num": number} for number, source in enumerate(inputs)],
    }


def _traced(*nodes: dict[str, Any]) -> TracedJob:
    return trace(read_plan({"plan": {"jid": "1", "name": "job", "type": "STREAMING", "nodes": list(nodes)}}))


def _names(traced: TracedJob, direction: Direction) -> list[str]:
    return [endpoint.name for endpoint in traced.endpoints if endpoint.direction is direction]


def _columns(traced: TracedJob) -> list[list[str]]:
    return [[read.column for read in column.inputs] for column in traced.columns]


def test_a_description_that_is_the_long_name() -> None:
    traced = _traced(_node("a", f"Source: {SCAN} -&gt; Calc(select=[v, id AS k]) -&gt; Sink: out"))
    assert _names(traced, Direction.READ) == ["orders"]
    assert _names(traced, Direction.WRITE) == ["out"]
    assert _columns(traced) == [["v"], ["id"]]


def test_the_parts_of_an_iceberg_sink_in_vertices_of_their_own() -> None:
    traced = _traced(
        _node("c", "IcebergFilesCommitter<br/>+- Sink: IcebergSink ice.db.orders<br/>", "b"),
        _node("b", "IcebergStreamWriter<br/>", "a"),
        _node("a", f"[1]:{SCAN}<br/>"),
    )
    (sink,) = (endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE)
    assert (sink.path, sink.hints, sink.vertex) == (("ice", "db", "orders"), {"connector": "iceberg"}, "b")
    assert _columns(traced) == [["id"], ["v"]]


def test_a_sink_that_names_its_table_behind_the_operator() -> None:
    traced = _traced(
        _node("a", f"[1]:{SCAN}<br/>+- Writer : totals<br/>"),
        _node("b", "Global Committer : totals<br/>+- Sink: end<br/>", "a"),
    )
    assert _names(traced, Direction.WRITE) == ["totals"]
    assert len(traced.columns) == 2


def test_a_sink_of_the_older_kind_prints_its_table() -> None:
    traced = _traced(_node("a", f"[1]:{SCAN}<br/>+- [2]:Sink(table=[c.d.out], fields=[id, v])<br/>"))
    (sink,) = (endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE)
    assert sink.path == ("c", "d", "out")


def test_options_that_a_query_gives_to_what_it_reads_and_writes() -> None:
    hints = "hints=[[[OPTIONS options:{topic=other, sink.parallelism=2}]]]"
    scan = f"[1]:TableSourceScan(table=[[c, d, a]], fields=[x], {hints})<br/>"
    traced = _traced(_node("1", f"{scan}+- [2]:Sink(table=[c.d.b], fields=[x], {hints}): Writer<br/>"))
    given = {"options.topic": "other", "options.sink.parallelism": "2"}
    assert [endpoint.hints for endpoint in traced.endpoints] == [given, given]


SECRET = """org.x required password="s3(r't}] s3cr3t";"""


def _hinted(more: str = "") -> str:
    options = f"properties.sasl.jaas.config={SECRET}, topic=other"
    return f"TableSourceScan(table=[[c, d, a]], fields=[x]{more}, hints=[[[OPTIONS options:{{{options}}}]]])"


@pytest.mark.parametrize("long", ["[1]:{}<br/>+- out[2]: Writer<br/>", "[1]:{} -> out[2]: Writer"])
def test_options_are_read_whatever_is_in_them_and_never_shown(long: str) -> None:
    traced = _traced(_node("1", long.format(_hinted())))
    source, sink = traced.endpoints
    assert source.hints == {"options.properties.sasl.jaas.config": SECRET, "options.topic": "other"}
    assert (source.path, sink.name) == (("c", "d", "a"), "out")
    assert _columns(traced) == [["x"]]
    assert "s3" not in repr(traced)


@pytest.mark.parametrize(
    "description",
    [
        # What does not come to its end, and an operator that nobody knows or that nothing takes from.
        "[1]:TableSourceScan(table=[[c, d, a]], hints=[[[OPTIONS options:{password='s3cr3t",
        f"[1]:{_hinted()} -> [2]:Calc(select=[x AS )",
        f"[1]:{_hinted(', more=[)]')}<br/>+- [2]:Calc(select=[x])<br/>",
        f"Source: a<br/>+- [1]:Odd(hints=[[[OPTIONS options:{{x={SECRET}}}]]])<br/>   +- out[2]: Writer<br/>",
    ],
)
def test_options_are_in_no_reason(description: str) -> None:
    assert "s3" not in repr(_traced(_node("1", description)))


def test_options_are_in_no_name_of_a_vertex() -> None:
    """Unless table.exec.simplify-operator-name-enabled is set to false, names are short."""
    node = _node("1", f"[1]:{_hinted()}<br/>+- out[2]: Writer<br/>")
    vertices = [{"id": "1", "name": f"Source: {_hinted()} -> out[2]: Writer"}]
    for more in ({}, {"vertices": vertices}):
        (vertex,) = trace(read_plan({"plan": {"nodes": [node]}, **more})).job.vertices
        assert "OPTIONS options:{…}]]]) -> out[2]: Writer" in vertex.name


def test_a_hint_of_another_kind_gives_no_options() -> None:
    hints = "hints=[[[STATE_TTL options:{a=1d}][OPTIONS inheritPath:[0] options:{topic=b}]]]"
    traced = _traced(_node("1", f"[1]:TableSourceScan(table=[[c, d, a]], fields=[x], {hints})<br/>"))
    assert traced.endpoints[0].hints == {"options.topic": "b"}


def test_a_job_of_the_datastream_api_has_tables_and_no_columns() -> None:
    traced = _traced(
        _node("a", "Source: kafka-orders<br/>+- Map<br/>"),
        _node("b", "Process<br/>+- totals: Writer<br/>   +- totals: Committer<br/>", "a"),
    )
    assert _names(traced, Direction.READ) == ["kafka-orders"]
    assert _names(traced, Direction.WRITE) == ["totals"]
    assert len(traced.flows) == 1
    assert traced.columns == ()
    assert "does not say what Process does" in traced.unresolved[0].reason


def test_code_behind_sql_may_change_every_column() -> None:
    traced = _traced(
        _node("a", f"[1]:{SCAN}<br/>+- [2]:TableToDataSteam(type=ROW&lt;id BIGINT&gt;, rowtime=false)<br/>"),
        _node("b", "Map<br/>+- Sink: out<br/>", "a"),
    )
    (sink,) = (endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE)
    assert (sink.name, sink.operator) == ("out", "Sink: out")
    assert traced.columns == ()
    assert len(traced.flows) == 1


def test_columns_that_come_from_a_datastream_are_unknown() -> None:
    traced = _traced(
        _node(
            "a",
            "Source: events<br/>+- [1]:SourceConversion(table=[Unregistered_1], fields=[f0, f1])<br/>"
            "   +- [2]:Calc(select=[f1 AS x])<br/>      +- out[3]: Writer<br/>",
        )
    )
    assert _names(traced, Direction.READ) == ["events"]
    ((column,),) = (traced.columns,)
    assert column.inputs == ()
    assert "DataStream" in (column.unknown or "")


def test_operators_that_feed_a_scan_are_parts_of_the_source() -> None:
    traced = _traced(_node("a", f"Source: monitor<br/>+- [1]:{SCAN}<br/>   +- out[2]: Writer<br/>"))
    assert _names(traced, Direction.READ) == ["orders"]
    assert _columns(traced) == [["id"], ["v"]]


def test_what_a_source_aggregates_is_unknown() -> None:
    table = "[[c, d, t, aggregates=[grouping=[k], aggFunctions=[Sum(v)]]]]"
    scan = f"TableSourceScan(table={table}, fields=[k, sum$0])"
    traced = _traced(_node("a", f"[1]:{scan}<br/>+- out[2]: Writer<br/>"))
    assert [column.inputs for column in traced.columns] == [(), ()]
    assert all("aggregates before" in (column.unknown or "") for column in traced.columns)


def test_a_flow_that_only_may_be_is_told_and_is_none() -> None:
    lookup = "LookupJoin(table=[c.d.dim], joinType=[InnerJoin], lookup=[id=id], select=[id, v, name])"
    aggregate = "GroupAggregate(groupBy=[{0}], select=[{0}, COUNT(*) AS n])"
    traced = _traced(
        _node("a", f"[1]:{SCAN}<br/>+- [2]:{lookup}<br/>"),
        _node("b", f"[4]:{aggregate.format('id')}<br/>+- one[5]: Writer<br/>", "a"),
        _node("c", f"[7]:{aggregate.format('v')}<br/>+- two[8]: Writer<br/>", "a"),
    )
    names = {endpoint.id: endpoint.name for endpoint in traced.endpoints}
    assert [(names[flow.source], names[flow.sink]) for flow in traced.flows] == [
        ("orders", "one"),
        ("orders", "two"),
    ]
    assert [entry.where for entry in traced.unresolved] == ["dim → one", "dim → two"]


def test_the_sides_of_a_join_whose_right_side_something_else_takes_too() -> None:
    join = "Join(joinType=[InnerJoin], where=[(id = id0)], select=[id, v, id0, v0])"
    other = "TableSourceScan(table=[[c, d, other]], fields=[id, v])"
    shared = _traced(
        _node("a", f"[1]:{SCAN}<br/>"),
        _node("b", f"[3]:{other}<br/>"),
        _node("c", f"[6]:{join}<br/>+- out[7]: Writer<br/>", "a", "b"),
        _node("d", "more[9]: Writer<br/>", "a"),
    )
    # The scan of orders was numbered for either use of it, so it may be on any side of the join.
    (out,) = (endpoint.id for endpoint in shared.endpoints if endpoint.name == "out")
    assert [column.inputs for column in shared.columns if column.endpoint == out] == [()] * 4
    assert all(column.unknown for column in shared.columns if column.endpoint == out)
    alone = _traced(
        _node("b", f"[3]:{other}<br/>"),
        _node("a", f"[1]:{SCAN}<br/>"),
        _node("c", f"[6]:{join}<br/>+- out[7]: Writer<br/>", "b", "a"),
    )
    names = {endpoint.id: endpoint.name for endpoint in alone.endpoints}
    read_from = [names[read.endpoint] for column in alone.columns for read in column.inputs]
    assert read_from == ["orders", "orders", "other", "other"]


TWO = (
    f"[1]:{SCAN}<br/>:- [2]:Calc(select=[id])<br/>:  +- {{}}<br/>"
    "+- [4]:Calc(select=[v, id])<br/>   +- {}<br/>"
)


def _by_sink(traced: TracedJob) -> dict[str, list[str]]:
    names = {e.id: e.name for e in traced.endpoints if e.direction is Direction.WRITE}
    return {
        name: [read.column for column in traced.columns if column.endpoint == id_ for read in column.inputs]
        for id_, name in names.items()
    }


def test_two_sinks_whose_writers_cannot_be_told_apart_are_two() -> None:
    plan = (
        _node("a", TWO.format("IcebergStreamWriter", "IcebergStreamWriter")),
        _node("b", "IcebergFilesCommitter<br/>+- Sink: IcebergSink ice.db.ids<br/>", "a"),
        _node("c", "IcebergFilesCommitter<br/>+- Sink: IcebergSink ice.db.both<br/>", "a"),
    )
    traced = _traced(*plan)
    assert _by_sink(traced) == {"ids": [], "both": []}
    assert len(traced.flows) == 2
    assert {entry.where for entry in traced.unresolved} == {"columns of ids", "columns of both"}
    answer = {"plan": {"jid": "1", "name": "job", "type": "STREAMING", "nodes": list(plan)}}
    tables: dict[tuple[str, ...], tuple[str, ...]] = {
        ("ice", "db", "ids"): ("x",),
        ("ice", "db", "both"): ("y", "z"),
    }
    told = trace(read_plan(answer), tables)
    assert _by_sink(told) == {"ids": ["id"], "both": ["v", "id"]}
    assert told.unresolved == ()


@pytest.mark.parametrize(
    ("writers", "committers"),
    [
        (("Writer : ids", "Writer : both"), ("Global Committer : ids", "Global Committer : both")),
        (
            ("IcebergStreamWriter-ids", "IcebergStreamWriter-both"),
            ("IcebergFilesCommitter-ids<br/>+- Sink: ids", "IcebergFilesCommitter-both<br/>+- Sink: both"),
        ),
    ],
)
def test_a_writer_and_its_committer_have_a_name_in_common(
    writers: tuple[str, str], committers: tuple[str, str]
) -> None:
    traced = _traced(
        _node("a", TWO.format(*writers)),
        _node("b", f"{committers[1]}<br/>", "a"),
        _node("c", f"{committers[0]}<br/>", "a"),
    )
    assert _by_sink(traced) == {"ids": ["id"], "both": ["v", "id"]}


def test_a_sink_of_the_planners_takes_from_the_operator_that_was_numbered_before() -> None:
    traced = _traced(
        _node("a", TWO.format("StreamingFileWriter", "IcebergStreamWriter")),
        _node("b", "end: Writer<br/>", "a"),
        _node("c", "IcebergFilesCommitter<br/>+- IcebergSink ice.db.both: Writer<br/>", "a"),
        _node("d", "k_out[5]: Writer<br/>+- k_out[5]: Committer<br/>", "a"),
    )
    both = ["v", "id"]
    assert _by_sink(traced) == {"StreamingFileWriter": ["id"], "both": both, "k_out": both}


def test_a_sink_whose_input_had_its_number_from_another_use_is_not_guessed() -> None:
    traced = _traced(
        _node("a", TWO.format("StreamingFileWriter", "IcebergStreamWriter")),
        _node("b", "end: Writer<br/>", "a"),
        _node("c", "IcebergFilesCommitter<br/>+- IcebergSink ice.db.both: Writer<br/>", "a"),
        _node("d", "k_out[7]: Writer<br/>", "a"),
    )
    assert _by_sink(traced)["k_out"] == []
    assert [entry.where for entry in traced.unresolved] == ["columns of k_out"]


def test_a_statement_set_of_many_sinks() -> None:
    count = 100
    calcs = [f"[{2 * n}]:Calc(select=[v AS v{n}])<br/>" for n in range(1, count + 1)]
    branches = [":- "] * (count - 1) + ["+- "]
    tree = "".join(branch + calc for branch, calc in zip(branches, calcs, strict=True))
    sinks = (_node(f"s{n}", f"k{n}[{2 * n + 1}]: Writer<br/>", "a") for n in range(1, count + 1))
    traced = _traced(_node("a", f"[1]:{SCAN}<br/>{tree}"), *sinks)
    assert _by_sink(traced) == {f"k{n}": ["v"] for n in range(1, count + 1)}
    assert [column.name for column in traced.columns] == [f"v{n}" for n in range(1, count + 1)]
    assert traced.unresolved == ()


def _branched(*numbers: int) -> str:
    """A scan, and as many operators that each take its second column under another name."""
    calcs = [f"[{n}]:Calc(select=[id, v AS v{n}])<br/>" for n in numbers]
    branches = [":- "] * (len(calcs) - 1) + ["+- "]
    tree = "".join(branch + calc for branch, calc in zip(branches, calcs, strict=True))
    return f"[1]:{SCAN}<br/>{tree}"


@pytest.mark.parametrize("count", [2, 4, 12, 60])
def test_a_union_of_many_branches_of_one_source(count: int) -> None:
    """Which edge begins at which branch makes no difference, and there are 60 to the 60th ways to say it."""
    scan = _branched(*range(2, 2 * count + 2, 2))
    traced = _traced(_node("a", scan), _node("b", f"out[{2 * count + 2}]: Writer<br/>", *["a"] * count))
    assert [column.name for column in traced.columns] == ["id", "v2"]
    assert _columns(traced) == [["id"], ["v"]]
    assert traced.unresolved == ()


@pytest.mark.parametrize(
    ("sink", "names"),
    [("Sink(table=[c.d.out], fields=[id, v1]): Writer", ["id", "v1"]), ("IcebergStreamWriter", ["0", "1"])],
)
def test_a_union_without_numbers_has_names_that_do_not_matter(sink: str, names: list[str]) -> None:
    """table.exec.simplify-operator-name-enabled = false takes the numbers away."""
    made = ("v AS v1", "id AS v2", "v AS v3")
    tree = "".join(f":- Calc(select=[id, {column}])<br/>" for column in made)
    traced = _traced(_node("a", f"{SCAN}<br/>{tree}"), _node("b", f"{sink}<br/>", "a", "a", "a"))
    assert [column.name for column in traced.columns] == names
    assert _columns(traced) == [["id"], ["id", "v"]]
    assert traced.unresolved == ()


def test_two_unions_of_branches_of_one_source() -> None:
    traced = _traced(
        _node("a", _branched(2, 4, 6, 9, 11, 13)),
        _node("b", "first[8]: Writer<br/>", "a", "a", "a"),
        _node("c", "second[15]: Writer<br/>", "a", "a", "a"),
    )
    assert [column.name for column in traced.columns] == ["id", "v2", "id", "v9"]
    assert _by_sink(traced) == {"first": ["id", "v"], "second": ["id", "v"]}
    assert traced.unresolved == ()


def test_branches_that_cannot_be_told_apart_take_no_time() -> None:
    """One of thirty goes elsewhere: what all ways have in common is told, or nothing."""
    traced = _traced(
        _node("a", _branched(*range(2, 62, 2))),
        _node("b", "out[90]: Writer<br/>", *["a"] * 29),
        _node("c", "more[91]: Writer<br/>", "a"),
    )
    assert len(traced.flows) == 2
    assert {read.column for column in traced.columns for read in column.inputs} <= {"id", "v"}
