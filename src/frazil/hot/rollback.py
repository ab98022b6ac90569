"""What to do about a hot table whose history is not the one that tiering wrote."""

from __future__ import annotations

from frazil.core.errors import HistoryChanged, PlaceLost
from frazil.core.stamp import stamp_key, stamp_tag
from frazil.hot.table import TIERING, HotTable


def rolled_back(table: HotTable, error: HistoryChanged) -> HistoryChanged:
    """The same in words of hot tables: what a pipeline is told to do is no way for them."""
    found = f"the hot table {table}: " + error.found.replace(f"pipeline {TIERING} ", "tiering ")
    if isinstance(error, PlaceLost):
        return PlaceLost(found, _remedy(table))
    return HistoryChanged(found, "Tiering goes on with the table as it is now")


def _remedy(table: HotTable) -> str:
    tag = stamp_tag(TIERING)
    return (
        "If that was not meant, make the commit main again, in Spark: CALL <catalog>.system."
        f"set_current_snapshot(table => '{table}', ref => '{tag}'); what others committed since is not in "
        "it. Else tier all of the log once more, on top of what the table has, which can be done while none "
        f"of it was trimmed: ALTER TABLE <catalog>.{table} DROP TAG `{tag}`, then ALTER TABLE <catalog>."
        f"{table} UNSET TBLPROPERTIES ('{stamp_key(TIERING)}'). A service that runs goes on within 5 minutes"
    )
