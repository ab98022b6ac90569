"""pgbench: the transactions of TPC-B, and now and then an account that gets another number."""

from __future__ import annotations

import re
from typing import ClassVar

from bench.soak.bank import Bank
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

# Numbers of accounts have gaps where some were closed: the next one above the point is taken.
_CHOOSE = """\
\\set point random(0, 999999)
SELECT aid FROM pgbench_accounts
WHERE aid >= (SELECT max(aid) FROM pgbench_accounts) * :point::bigint / 1000000 ORDER BY aid LIMIT 1 \\gset
"""
_TPCB = f"""\
\\set bid random(1, :branches)
\\set tid random(1, 10 * :branches)
\\set delta random(-5000, 5000)
{_CHOOSE}BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
# The balance goes along: all balances of accounts stay as large as those of tellers and branches.
_MOVE = f"""\
{_CHOOSE}WITH closed AS (DELETE FROM pgbench_accounts WHERE aid = :aid RETURNING bid, abalance, filler)
INSERT INTO pgbench_accounts SELECT nextval('pgbench_aids'), bid, abalance, filler FROM closed;
"""
#: Of a hundred transactions.
_MOVES = 5
_SEED = 7


class Traffic(Service):
    """One client that keeps to a rate for some seconds."""

    name: ClassVar[str] = "pgbench"

    def __init__(self, bank: Bank, rate: float, seconds: float) -> None:
        super().__init__()
        self._bank, self._rate, self._seconds = bank, rate, seconds

    def command(self) -> Command:
        scripts = []
        for name, text, weight in (("tpcb", _TPCB, 100 - _MOVES), ("move", _MOVE, _MOVES)):
            path = self.directory / f"{name}.sql"
            path.write_text(text)
            scripts += ["-f", f"{path}@{weight}"]
        rate = ["-R", f"{self._rate:g}", "-T", f"{self._seconds:.0f}"]
        more = ["-n", "-c", "1", "-j", "1", "-M", "prepared", f"--random-seed={_SEED}"]
        command, environment = self._bank.pgbench(
            *scripts, *rate, *more, "-D", f"branches={self._bank.scale}"
        )
        return Command(command, environment, self.directory)

    def healthy(self) -> bool:
        return self.running

    @property
    def per_second(self) -> float:
        """Transactions, by pgbench's own report at its end."""
        found = re.search(r"^tps = ([0-9.]+)", self.log.read_text(), re.MULTILINE)
        if found is None:
            raise RuntimeError(f"pgbench did not end as it should:\n{self.log_tail()}")
        return float(found[1])
