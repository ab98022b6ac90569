"""What the captured jobs really do, written by hand from their statements.

One entry for each column of the sink, in the table's order: the columns it is made of, `*` behind those that
are computed with, `+` behind those that are aggregated over rows, nothing for a constant.
"""

from __future__ import annotations

Columns = list[str]

_JOINED = ["orders.id", "customers.name", "orders.amount", "customers.city"]
_COMPUTED = ["orders.id", "customers.name*", "orders.amount*", "customers.city"]
_LOOKED_UP = ["orders.id", "dim.name", "orders.amount", "dim.city"]
_WINDOW = ["orders.customer_id", "orders.ts*", "orders.ts*", "orders.amount+"]
_COUNTED = ["orders.customer_id", "orders.id+", "orders.amount+"]
_NESTED = [
    "nested.person.name",
    "nested.person.address.street",
    "nested.tags*",
    "nested.props*",
    "nested.person.address.zip*",
]

#: By job, then by sink; a sink that several statements write has one list for each of its writers.
TRUTH: dict[str, dict[str, list[Columns]]] = {
    "join": {"joined": [_COMPUTED]},
    "cascading": {"joined": [_COMPUTED]},
    "long_names": {"joined": [_COMPUTED]},
    "join_same_names": {"s3": [["left_t.id", "left_t.v", "right_t.v"]]},
    "join_right_first": {"s3": [["right_t.id", "left_t.v", "right_t.v"]]},
    "self_join": {"s3": [["left_t.id", "left_t.v", "left_t.v*"]]},
    "semi_join": {"s2": [["orders.id", "orders.note"]]},
    "anti_join": {"s2": [["orders.id", "orders.note"]]},
    "three_way": {"joined": [["orders.id", "customers.name", "left_t.v*", "customers.city"]]},
    "interval_join": {"joined": [_JOINED]},
    "temporal_join": {"joined": [_JOINED]},
    "lookup": {"joined": [_LOOKED_UP]},
    "lookup_calc": {"joined": [["orders.id", "dim.name*", "orders.amount", "dim.city"]]},
    "lookup_whole": {"s3": [["orders.customer_id", "dim2.id", "dim2.v"]]},
    "window_join": {"s3": [["orders.id", "customers.id", "orders.customer_id"]]},
    "window_tumble": {"s4": [_WINDOW]},
    "window_top": {"s4": [_WINDOW]},
    "group_window": {"s4": [_WINDOW]},
    "window_hop_proc": {"s4": [["orders.customer_id", "", "", "orders.amount+"]]},
    "window_tvf_only": {"s4": [["orders.customer_id", "orders.ts*", "orders.ts*", "orders.amount*"]]},
    "over": {"s3": [["orders.id", "orders.customer_id", "orders.note+"]]},
    "lag": {"s3": [["orders.id", "orders.customer_id+", ""]]},
    "top_n": {"s3": [["left_t.id", "left_t.v", ""]]},
    "deduplicate": {"s2": [["orders.id", "orders.note"]]},
    "deduplicate_proc": {"s2": [["orders.id", "orders.note"]]},
    # The planner casts the second and third id, for only that of customers cannot be null.
    "union_all": {"s2": [["orders.id customers.id*", "orders.note customers.name customers.city"]]},
    "union_swapped": {"s3": [["left_t.id right_t.v", "left_t.v right_t.id", ""]]},
    "union_distinct": {"s3": [["left_t.id right_t.v", "left_t.v right_t.id", "left_t.v right_t.id"]]},
    "union_then_join": {"joined": [["left_t.id right_t.v", "customers.name", "", "customers.city"]]},
    "grouping_sets": {
        "strings": [["orders.customer_id*", "orders.note", "orders.amount+", "", "orders.id+"]]
    },
    "unnest": {"s2": [["nested.id", "nested.tags*"]]},
    "nested": {"strings": [_NESTED]},
    "nested_row": {"s2": [["nested.id", "nested.id* nested.person.name*"]]},
    "functions": {
        "strings": [["orders.note*", "orders.ts*", "orders.note* orders.id*", "orders.note*", "orders.ts*"]]
    },
    "case_view": {"s2": [["customers.id", "customers.name* customers.city*"]]},
    "match_recognize": {"s3": [["orders.customer_id", "orders.id+", "orders.id+"]]},
    "having_filter": {"s3": [["orders.customer_id", "", "orders.id+"]]},
    "enforced": {"keyed": [["orders.id", "orders.note"]]},
    "materialized": {"keyed": [["orders.customer_id", "orders.note+"]]},
    "partial_insert": {"strings": [["orders.id*", "", "orders.note", "", ""]]},
    "values": {"s2": [["", ""]]},
    "sort_limit": {"s2": [["orders.id", "orders.note"]]},
    "local_global": {"s3": [_COUNTED]},
    "split_distinct": {"s3": [_COUNTED]},
    "shared": {
        "s3": [["orders.customer_id", "", "orders.amount+"]],
        "s2": [["orders.customer_id", "orders.amount+"]],
        "strings": [["orders.note"] * 5],
    },
    "batch_aggregate": {"s3": [["bounded.id", "bounded.v+", ""]]},
    "batch_rank": {"s3": [["bounded.id", "bounded.v", ""]]},
    "batch_join": {"joined": [["bounded.id", "bcustomers.name", "bounded.v*", "bcustomers.city"]]},
}
TRUTH["cascading_set"] = TRUTH["shared"]

#: Jobs whose plan does not tell some columns; an edge that is given must be one of these all the same.
UNTOLD: dict[str, dict[str, list[Columns]]] = {
    # Without the planner's numbers nothing tells the sides of a join of equal columns apart.
    "long_names_same": TRUTH["join_same_names"],
    # The plan of a batch job had only its first vertices when it was asked for.
    "batch_unfinished": {},
    # A quote in a column's name, and a literal that looks like the end of a call.
    "odd_names": {"strings": [["odd.a, b*", "odd.c AS d", "odd.x[0]* odd.plain*", "odd.it's", "odd.a.b*"]]},
    "odd_day": {"s3": [["odd.ts*", "odd.DAY*", "odd.a, b"]]},
    "literals": {"strings": [["", "orders.note*", "orders.id* orders.note*", "", ""]]},
    # An operator of the middle and one of the end of a vertex send rows on; both have the columns.
    "shared_two_ways": {
        "s3": [["left_t.id left_t.v*", "", "left_t.v+ left_t.id+"], ["left_t.id", "left_t.v*", ""]]
    },
}
