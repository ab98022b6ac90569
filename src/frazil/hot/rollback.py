"""What to do about a hot table whose history is not the one that tiering wrote."""

from __future__ import annotations

from frazil.core.errors import HistoryChanged
from frazil.core.stamp import stamp_key, stamp_tag
from frazil.hot.table import TIERING, HotTable


def rolled_back(table: HotTable, error: HistoryChanged) -> HistoryChanged:
    """The same in words of hot tables: what a pipeline is told to do is no way for them."""
    message = error.message.replace(f"pipeline {TIERING} ", "tiering ")
    found, unknown, _ = message.partition(". Say where to go on")
    if unknown:
        return HistoryChanged(f"the hot table {table}: {found}. {_remedy(table)}")
    found, _, _ = message.partition(". Start the pipeline again")
    return HistoryChanged(f"the hot table {table}: {found}. Tiering goes on from where the table is now")


def _remedy(table: HotTable) -> str:
    tag = stamp_tag(TIERING)
    return (
        "If that was not meant, make the commit main again, in Spark: CALL <catalog>.system."
        f"set_current_snapshot(table => '{table}', ref => '{tag}'); what others committed since is not in "
        "it. Else tier all of the log once more, on top of what the table has, which can be done while none "
        f"of it was trimmed: ALTER TABLE <catalog>.{table} DROP TAG `{tag}`, then ALTER TABLE <catalog>."
        f"{table} UNSET TBLPROPERTIES ('{stamp_key(TIERING)}'). A service that runs goes on within 5 minutes"
    )
