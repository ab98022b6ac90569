"""From endpoints to edges between datasets and their columns."""

from __future__ import annotations

from frazil.lineage.binding import bind, joined
from frazil.lineage.model import (
    ColumnEdge,
    Dataset,
    DatasetEdge,
    Derivation,
    Direction,
    Endpoint,
    Flow,
    Input,
    Job,
    JobLineage,
    OutputColumn,
    Resolution,
    TracedJob,
    Unresolved,
    Use,
    Vertex,
)

TOPIC = Dataset("kafka", "orders")
TABLE = Dataset("iceberg", "db.orders")


def _traced(*columns: OutputColumn) -> TracedJob:
    endpoints = (
        Endpoint("r", Direction.READ, "k_orders", "v1", "TableSourceScan(…)"),
        Endpoint("w", Direction.WRITE, "orders", "v2", "ice.db.orders: Writer"),
    )
    return TracedJob(Job("1", "job"), endpoints, (Flow("r", "w"),), columns)


def _column(position: int, column: str, *path: str) -> OutputColumn:
    return OutputColumn("w", position, f"EXPR${position}", (Input("r", column, path),))


def test_columns_are_named_by_the_table_and_not_by_the_query() -> None:
    resolved = {
        "r": Resolution(TOPIC, columns=("id", "v")),
        "w": Resolution(TABLE, columns=("order_id", "value")),
    }
    lineage = bind(_traced(_column(0, "id"), _column(1, "v")), resolved)
    assert lineage.edges == (DatasetEdge(TOPIC, TABLE),)
    assert lineage.columns == (
        ColumnEdge(TOPIC, "id", TABLE, "order_id"),
        ColumnEdge(TOPIC, "v", TABLE, "value"),
    )
    assert lineage.unresolved == ()
    assert lineage.datasets(Direction.WRITE) == (TABLE,)


def test_without_the_tables_columns_there_is_no_edge_to_them() -> None:
    lineage = bind(_traced(_column(0, "id")), {"r": Resolution(TOPIC), "w": Resolution(TABLE)})
    assert lineage.edges == (DatasetEdge(TOPIC, TABLE),)
    assert lineage.columns == ()
    assert "may have other names" in lineage.unresolved[0].reason


def test_a_table_of_another_width_gets_no_edges() -> None:
    resolved = {"r": Resolution(TOPIC), "w": Resolution(TABLE, columns=("a", "b"))}
    lineage = bind(_traced(_column(0, "id")), resolved)
    assert lineage.columns == ()
    assert "writes 1 columns, the table has 2" in lineage.unresolved[0].reason


def test_of_a_written_column_of_which_only_the_place_is_known_there_is_no_edge() -> None:
    resolved = {"r": Resolution(TOPIC), "w": Resolution(TABLE, columns=("a", None, None))}
    lineage = bind(_traced(*(_column(position, "id") for position in range(3))), resolved)
    assert lineage.columns == (ColumnEdge(TOPIC, "id", TABLE, "a"),)
    (told,) = lineage.unresolved
    assert "several metadata columns" in told.reason


def test_a_column_that_the_source_does_not_have_gets_no_edge() -> None:
    resolved = {"r": Resolution(TOPIC, columns=("a",)), "w": Resolution(TABLE, columns=("a",))}
    lineage = bind(_traced(_column(0, "b")), resolved)
    assert lineage.columns == ()
    assert lineage.unresolved[0].where == "kafka:orders.b"


def test_a_flattened_field_is_found_when_only_one_can_be_meant() -> None:
    sink = Resolution(TABLE, columns=("a",))
    one = Resolution(TOPIC, columns=("person",), fields={"person": ("name", "address.zip")})
    lineage = bind(_traced(_column(0, "person_address_zip")), {"r": one, "w": sink})
    assert [edge.upstream_column for edge in lineage.columns] == ["person.address.zip"]
    two = Resolution(TOPIC, columns=("a_b", "a"), fields={"a_b": ("c",), "a": ("b_c",)})
    assert bind(_traced(_column(0, "a_b_c")), {"r": two, "w": sink}).columns == ()


def test_what_is_not_resolved_is_told_and_has_no_edges() -> None:
    reason = Unresolved("k_orders", "a temporary table", "give a DDL file", "r")
    lineage = bind(_traced(_column(0, "id")), {"r": reason, "w": Resolution(TABLE, columns=("id",))})
    assert (lineage.edges, lineage.columns) == ((), ())
    assert lineage.unresolved == (reason,)
    assert bind(_traced(), {}).unresolved[0].reason == "nothing tells which dataset this is"


def test_executions_of_a_job_are_joined_by_the_places_of_their_vertices() -> None:
    """Of two jobs of the same shape, the vertices have the same ids."""
    other = Dataset("kafka", "returns")

    def lineage(source: Dataset, derivation: Derivation, *inputs: str) -> JobLineage:
        return JobLineage(
            Job("1", "job", streaming=True, vertices=(Vertex("v1", "Scan"), Vertex("v2", "Sink", inputs))),
            uses=(Use("v1", Direction.READ, source), Use("v2", Direction.WRITE, TABLE)),
            edges=(DatasetEdge(source, TABLE),),
            columns=(ColumnEdge(TOPIC, "id", TABLE, "id", derivation),),
        )

    found = joined(
        Job("2", "job"),
        [lineage(TOPIC, Derivation.COPY, "v1"), lineage(other, Derivation.TRANSFORMATION, "v1", "v0")],
    )
    assert (found.job.id, found.job.streaming) == ("2", True)
    assert found.job.vertices == (Vertex("v1", "Scan"), Vertex("v2", "Sink", ("v1", "v0")))
    assert found.datasets(Direction.READ) == (TOPIC, other)
    assert found.edges == (DatasetEdge(TOPIC, TABLE), DatasetEdge(other, TABLE))
    assert found.columns == (ColumnEdge(TOPIC, "id", TABLE, "id", Derivation.TRANSFORMATION),)


def test_an_unknown_column_keeps_the_inputs_that_are_known() -> None:
    column = OutputColumn("w", 0, "x", (Input("r", "id", derivation=Derivation.AGGREGATION),), "two ways")
    resolved = {"r": Resolution(TOPIC), "w": Resolution(TABLE, columns=("n",))}
    lineage = bind(_traced(column), resolved)
    assert lineage.columns == (ColumnEdge(TOPIC, "id", TABLE, "n", Derivation.AGGREGATION),)
    assert lineage.unresolved[0].reason == "two ways"
