"""Descriptions of vertices, in each form that Flink gives them."""

from __future__ import annotations

from typing import Any

from frazil.lineage.flink.plan.graph import build_graph
from frazil.lineage.flink.plan.operators import read_operator
from frazil.lineage.flink.plan.reading import read_description, read_plan


def _shape(description: str) -> list[tuple[str, int | None]]:
    return [(chained.operator.text, chained.parent) for chained in read_description(description)]


def test_a_tree_leads_to_what_an_operator_feeds() -> None:
    description = "head<br/>:- one<br/>:  :- child 1<br/>:  +- child 2<br/>+- two<br/>   +- child 3<br/>"
    assert _shape(description) == [
        ("head", None),
        ("one", 0),
        ("child 1", 1),
        ("child 2", 1),
        ("two", 0),
        ("child 3", 4),
    ]


def test_arrows_with_branches() -> None:
    assert _shape("Source: a -&gt; b -&gt; (c -&gt; d , e)") == [
        ("Source: a", None),
        ("b", 0),
        ("c", 1),
        ("d", 2),
        ("e", 1),
    ]
    assert _shape("Source: a[1] -> (b[2], c[3])") == [("Source: a[1]", None), ("b[2]", 0), ("c[3]", 0)]


def test_an_arrow_in_the_only_line_of_a_tree_is_a_name() -> None:
    assert _shape("Source: kafka -> lake<br/>") == [("Source: kafka -> lake", None)]
    assert _shape("Sink: kafka -&gt; (lake, hub)<br/>") == [("Sink: kafka -> (lake, hub)", None)]


def test_arrows_inside_of_strings_and_brackets_are_text() -> None:
    text = "Calc(select=[||(a, ' -&gt; ') AS b]) -&gt; Sink: x"
    assert _shape(text) == [("Calc(select=[||(a, ' -> ') AS b])", None), ("Sink: x", 0)]


def test_strings_of_rows_of_constants_end() -> None:
    text = "Values(tuples=[[{ 1, _UTF-16LE'a' }, { 2, _UTF-16LE'it's b' }]])"
    assert _shape(f"Source: {text} -> Sink: x") == [(f"Source: {text}", None), ("Sink: x", 0)]


def test_what_is_escaped_for_a_page_is_text_again() -> None:
    (chained,) = read_description(
        "[7]:Calc(select=[th&eacute;, &#92;d], where=[(a &lt;&gt; '&lt;br/&gt;')])<br/>"
    )
    assert chained.operator.attributes == {"select": "thé, \\d", "where": "(a <> '<br/>')"}


def test_a_line_break_in_a_string_is_no_new_operator() -> None:
    description = "[1]:Calc(select=['x<br/>+- y<br/>z' AS a])<br/>+- b[2]: Writer<br/>"
    assert [text for text, _ in _shape(description)][-1] == "b[2]: Writer"
    description = "[1]:Calc(select=['x<br/>break' AS a])<br/>+- b[2]: Writer<br/>"
    assert _shape(description) == [("Calc(select=['x\nbreak' AS a])", None), ("b[2]: Writer", 0)]


def test_an_operator_with_its_number_and_attributes() -> None:
    operator = read_operator(
        "[6]:TableSourceScan(table=[[c, d, t, watermark=[-(ts, 5000:INTERVAL SECOND)]]], fields=[a, b])"
    )
    assert (operator.kind, operator.number) == ("TableSourceScan", 6)
    assert operator.attributes == {
        "table": "[c, d, t, watermark=[-(ts, 5000:INTERVAL SECOND)]]",
        "fields": "a, b",
    }
    assert read_operator("k_out[11]: Writer").number == 11
    assert read_operator("Source: TableSourceScan(table=[[c, d, t]], fields=[a])").kind == "TableSourceScan"


def test_what_cannot_be_read_to_its_end_keeps_what_came_before() -> None:
    operator = read_operator("[1]:TableSourceScan(table=[[c, d, t]], fields=[it's, b[0], c]")
    assert operator.attributes == {"table": "[c, d, t]"}
    assert operator.unclear is not None


def test_sources_inside_an_operator_are_its_inputs() -> None:
    operator = read_operator(
        "[5]:MultipleInput(readOrder=[0,1])"
        " [[1]:TableSourceScan(table=[[c, d, t]], fields=[a]), [2]:Values(tuples=[[]])]"
    )
    assert [source.kind for source in operator.sources] == ["TableSourceScan", "Values"]


def _node(id_: str, description: str, *inputs: str) -> dict[str, Any]:
    return {
        "id": id_,
        "description": description,
        "inputs": [{"id": source, "num": number} for number, source in enumerate(inputs)],
    }


def _producers(*nodes: dict[str, Any]) -> dict[str, list[list[str]]]:
    graph = build_graph(read_plan({"plan": {"nodes": list(nodes)}}))
    return {
        head.operator.text: [[node.operator.text for node in edge.producers] for edge in edges]
        for head, edges in graph.edges.items()
    }


def test_an_edge_begins_at_the_operator_that_nothing_else_takes_from() -> None:
    found = _producers(
        _node("b", "[5]:Limit(offset=[0])<br/>", "a"),
        _node("a", "scan<br/>:- k[2]: Writer<br/>:  +- k[2]: Committer<br/>+- [3]:Calc(select=[x])<br/>"),
    )
    assert found["Limit(offset=[0])"] == [["Calc(select=[x])"]]


def test_an_edge_that_can_begin_at_several_operators_names_them_all() -> None:
    found = _producers(
        _node("a", "[1]:Scan(x=[y])<br/>+- [2]:Calc(select=[x])<br/>"),
        _node("b", "[4]:Limit(offset=[0])<br/>", "a"),
        _node("c", "[6]:Sort(orderBy=[x])<br/>", "a"),
    )
    assert found["Limit(offset=[0])"] == [["Scan(x=[y])", "Calc(select=[x])"]]


def test_a_number_that_comes_later_cannot_feed() -> None:
    found = _producers(
        _node("a", "[1]:Scan(x=[y])<br/>:- [2]:Calc(select=[x])<br/>+- [7]:Calc(select=[z])<br/>"),
        _node("b", "[4]:Limit(offset=[0])<br/>", "a"),
        _node("c", "[6]:Sort(orderBy=[x])<br/>", "a"),
        _node("d", "[8]:Limit(offset=[1])<br/>", "a"),
    )
    # Only the last can take from the seventh, and something must.
    assert found["Limit(offset=[1])"] == [["Calc(select=[z])"]]


def test_vertices_that_feed_each_other_are_read() -> None:
    assert set(_producers(_node("a", "one", "b"), _node("b", "two", "a"))) == {"one", "two"}
