"""Pictures of lineage: the same graph as text, Mermaid and SVG."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest

from frazil.core.errors import NotFound
from frazil.lineage.draw import Form, draw, select
from frazil.lineage.model import ColumnEdge, Dataset, DatasetEdge, Derivation, Direction, Job, JobLineage, Use

SVG = "{http://www.w3.org/2000/svg}"
TOPIC, ORDERS = Dataset("kafka", "orders"), Dataset("iceberg", "db.orders")
TOTALS, AUDIT = Dataset("iceberg", "db.totals"), Dataset("kafka", "audit")


def _job(name: str, reads: list[Dataset], writes: list[Dataset], columns: list[ColumnEdge]) -> JobLineage:
    uses = [Use("v", Direction.READ, dataset) for dataset in reads]
    uses += [Use("v", Direction.WRITE, dataset) for dataset in writes]
    edges = tuple(DatasetEdge(source, target) for source in reads for target in writes)
    return JobLineage(Job(name, name), tuple(uses), edges, tuple(columns))


LINEAGES = [
    _job(
        "ingest",
        [TOPIC],
        [ORDERS],
        [ColumnEdge(TOPIC, "amount", ORDERS, "amount", Derivation.TRANSFORMATION)],
    ),
    _job(
        "sum",
        [ORDERS],
        [TOTALS],
        [
            ColumnEdge(ORDERS, "amount", TOTALS, "total", Derivation.AGGREGATION),
            ColumnEdge(ORDERS, "customer", TOTALS, "customer"),
        ],
    ),
    _job("audit", [TOPIC], [AUDIT], []),
]


def test_a_tree_in_the_terminal() -> None:
    assert draw(LINEAGES) == (
        "kafka:orders\n"
        "├─ ⚙ ingest\n"
        "│  └─ iceberg:db.orders\n"
        "│     └─ ⚙ sum\n"
        "│        └─ iceberg:db.totals\n"
        "└─ ⚙ audit\n"
        "   └─ kafka:audit\n"
    )


def test_a_long_name_goes_on_inside_of_its_branch() -> None:
    long = _job("insert-into_" + "x" * 30, [TOPIC], [ORDERS, AUDIT], [])
    assert draw([long, LINEAGES[2]], width=30) == (
        "kafka:orders\n"
        "├─ ⚙ insert-into_xxxxxxxxxxxxx\n"
        "│  │    xxxxxxxxxxxxxxxxx\n"
        "│  ├─ iceberg:db.orders\n"
        "│  └─ kafka:audit\n"
        "└─ ⚙ audit\n"
        "   └─ kafka:audit\n"
    )
    assert draw([long], width=12).splitlines()[1] == f"└─ ⚙ {long.job.name}"


def test_a_column_that_two_jobs_make_in_two_ways_has_one_arrow_with_the_stronger() -> None:
    copy = _job("copy", [TOPIC], [ORDERS], [ColumnEdge(TOPIC, "amount", ORDERS, "amount")])
    assert draw([copy, LINEAGES[0]], columns=True) == (
        "kafka:orders.amount\n└─ iceberg:db.orders.amount  (transformation)\n"
    )


def test_a_table_has_what_it_came_from_and_what_came_from_it() -> None:
    assert draw(LINEAGES, table="totals") == (
        "kafka:orders\n└─ ⚙ ingest\n   └─ iceberg:db.orders\n      └─ ⚙ sum\n         └─ iceberg:db.totals\n"
    )


def test_a_table_has_only_what_feeds_it_in_a_job_of_several_statements() -> None:
    uses = _job("both", [TOPIC, ORDERS], [AUDIT, TOTALS], []).uses
    both = JobLineage(
        Job("both", "both"),
        uses,
        edges=(DatasetEdge(TOPIC, AUDIT),),
        # The plan told the column's way alone.
        columns=(ColumnEdge(ORDERS, "amount", TOTALS, "total"),),
    )
    assert draw([both], table="audit") == "kafka:orders\n└─ ⚙ both\n   └─ kafka:audit\n"
    assert draw([both], table="totals") == "iceberg:db.orders\n└─ ⚙ both\n   └─ iceberg:db.totals\n"
    assert draw([both], table="kafka:orders") == draw([both], table="audit")
    unknown = JobLineage(both.job, uses)
    assert draw([unknown], table="audit") == (
        "kafka:orders\n└─ ⚙ both\n   └─ kafka:audit\niceberg:db.orders\n└─ ⚙ both  (see above)\n"
    )


def test_a_table_has_the_job_that_writes_it_if_nothing_else_of_the_job_is_resolved() -> None:
    ingest = JobLineage(Job("ingest", "ingest"), (Use("v", Direction.WRITE, ORDERS),))
    assert draw([ingest, LINEAGES[1]], table="totals") == (
        "⚙ ingest\n└─ iceberg:db.orders\n   └─ ⚙ sum\n      └─ iceberg:db.totals\n"
    )


def test_a_way_between_two_ways_is_not_selected() -> None:
    around = _job("around", [TOPIC], [TOTALS], [])
    assert [job.job.name for job in select([*LINEAGES, around], table="db.orders")] == ["ingest", "sum"]


def test_a_column_is_selected_with_its_jobs_and_tables() -> None:
    (ingest, sum_) = select(LINEAGES, table="totals", column="total")
    assert ingest == LINEAGES[0]
    assert [edge.downstream_column for edge in sum_.columns] == ["total"]
    assert sum_.edges == LINEAGES[1].edges
    assert [job.job.name for job in select(LINEAGES, columns=True)] == ["ingest", "sum"]


def test_a_column_has_its_way_with_what_was_done_to_it() -> None:
    assert draw(LINEAGES, table="db.totals", column="total") == (
        "kafka:orders.amount\n"
        "└─ iceberg:db.orders.amount  (transformation)\n"
        "   └─ iceberg:db.totals.total  (aggregation)\n"
    )
    assert "db.orders.customer" in draw(LINEAGES, columns=True)


def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(NotFound, match=r"no job reads or writes 'nope'.*iceberg:db.orders"):
        draw(LINEAGES, table="nope")
    with pytest.raises(NotFound, match=r"no lineage of a column 'nope'.*customer, total"):
        draw(LINEAGES, table="totals", column="nope")
    # A job writes it, and which columns it has is not known.
    job = _job("copy", [TOPIC], [AUDIT], [])
    with pytest.raises(NotFound, match=rf"no lineage of columns is known of '{AUDIT.name}'"):
        draw([job], table=AUDIT.name, column="total")


def test_circles_and_meeting_ways_are_drawn_once() -> None:
    there, back = _job("there", [TOPIC], [AUDIT], []), _job("back", [AUDIT], [TOPIC], [])
    assert draw([there, back]) == (
        "⚙ there\n└─ kafka:audit\n   └─ ⚙ back\n      └─ kafka:orders\n         └─ ⚙ there  (see above)\n"
    )
    assert draw([there, back], Form.SVG).count("<rect") == 1 + 4


def test_mermaid_has_a_node_for_each_box_and_an_arrow_for_each_edge() -> None:
    text = draw(LINEAGES, Form.MERMAID, table="totals")
    assert text.startswith("flowchart LR\n")
    assert 'n0(["ingest"])' in text
    assert len(re.findall(r"n\d+ --> n\d+", text)) == 4
    assert "-->|aggregation|" in draw(LINEAGES, Form.MERMAID, column="total")


def test_svg_is_xml_with_boxes_from_left_to_right() -> None:
    root = Xml.fromstring(draw(LINEAGES, Form.SVG, table="totals"))
    at = {title: box[0] for title, box in _boxes(draw(LINEAGES, Form.SVG, table="totals")).items()}
    order = ["kafka:orders", "ingest", "iceberg:db.orders", "sum", "iceberg:db.totals"]
    assert sorted(at, key=at.__getitem__) == order
    assert len(root.findall(f"{SVG}path")) == 4


def _boxes(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom by title."""
    found = {}
    for group in Xml.fromstring(svg).findall(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
        found[group.findtext(f"{SVG}title") or ""] = (x, y, x + width, y + height)
    return found


def _points(path: str) -> list[tuple[float, float]]:
    """Where the parts of an arrow's line begin and end."""
    points: list[tuple[float, float]] = []
    for kind, text in re.findall(r"([MCH])([^MCH]*)", path):
        numbers = [float(number) for number in text.split()]
        points.append((numbers[0], points[-1][1]) if kind == "H" else (numbers[-2], numbers[-1]))
    return points


def test_an_arrow_over_several_columns_goes_through_gaps_between_boxes() -> None:
    chain = [_job(f"j{n}", [Dataset("t", str(n))], [Dataset("t", str(n + 1))], []) for n in range(3)]
    short_cut = _job("direct", [Dataset("t", "0")], [Dataset("t", "3")], [])
    svg = draw([*chain, short_cut], Form.SVG)
    boxes = _boxes(svg)
    height = float(Xml.fromstring(svg).get("height", "0"))
    lines = [_points(path.get("d", "")) for path in Xml.fromstring(svg).findall(f"{SVG}path")]
    assert max(len(line) for line in lines) > 2
    for line in lines:
        for (x1, y1), (x2, y2) in pairwise(line):
            assert 0 < y1 < height
            for left, top, right, bottom in boxes.values():
                # Lines begin and end at boxes, up to how numbers are printed.
                beside = right < x1 + 1 or left > x2 - 1
                assert y1 != y2 or beside or not top < y1 < bottom
    tops = sorted((left, top, bottom) for left, top, _, bottom in boxes.values())
    assert all(a[2] < b[1] for a, b in pairwise(tops) if a[0] == b[0])


def test_an_arrow_that_leads_back_stays_in_the_picture_and_below_the_boxes() -> None:
    svg = draw([_job("there", [TOPIC], [AUDIT], []), _job("back", [AUDIT], [TOPIC], [])], Form.SVG)
    root = Xml.fromstring(svg)
    lowest = max(bottom for *_, bottom in _boxes(svg).values())
    (back,) = (line for path in root.findall(f"{SVG}path") if len(line := _points(path.get("d", ""))) == 4)
    assert lowest < back[1][1] < float(root.get("height", "0"))


def test_how_a_column_was_made_is_told_by_the_line_and_a_legend() -> None:
    root = Xml.fromstring(draw(LINEAGES, Form.SVG, columns=True))
    legend = [text.text for text in root.findall(f"{SVG}text")]
    assert legend == ["transformation", "aggregation"]
    titles = [path.findtext(f"{SVG}title") for path in root.findall(f"{SVG}path[@marker-end]")]
    assert sorted(title or "" for title in titles) == ["", "aggregation", "transformation"]
    assert Xml.fromstring(draw(LINEAGES, Form.SVG)).findall(f"{SVG}text") == []


def test_the_end_of_a_long_name_is_kept() -> None:
    long = Dataset("iceberg", f"{'namespace.' * 9}orders")
    svg = draw([_job("j", [long], [], [])], Form.SVG)
    assert re.search(r">iceberg:namespace\S*…\S*\.orders</text>", svg)
    assert f"<title>{long}</title>" in svg


@pytest.mark.parametrize("form", list(Form))
def test_a_name_can_be_anything(form: Form) -> None:
    evil = Dataset("kafka", "<script>\"'&]-->|x|\n\x1b[31m\x00;#`{}\ufffe")
    text = draw([_job("</text>", [evil], [AUDIT], [])], form)
    assert "\x1b" not in text
    assert "\x00" not in text
    if form is Form.SVG:
        assert "<script" not in text
        Xml.fromstring(text)
    if form is Form.MERMAID:
        assert len(text.splitlines()) == 1 + 3 + 2
        assert "<script" not in text


def test_nothing_is_an_empty_picture() -> None:
    assert draw([]) == ""
    assert draw([], Form.MERMAID) == "flowchart LR\n"
    Xml.fromstring(draw([], Form.SVG))
