"""The network between Spark's JVM and the catalog, where commits meet with accidents."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.client.faulty import Fault, FaultyNetwork, Reply, Seen

#: Without its key a request is a new one to the catalog, as it is to one that does not know such keys.
_NOT_PASSED_ON = ("connection", "host", "idempotency-key")


@dataclass(frozen=True)
class Accident:
    """Befalls one commit."""

    fault: Fault | Reply = Fault.PASS
    #: Done when the request comes, before it goes on.
    before: Callable[[], object] | None = None
    #: The catalog gets the request all the same, whatever the sender is told.
    arrives: bool = False
    #: It gets the request when `release` is called.
    late: bool = False


def answered_within(accidents: Sequence[Accident]) -> int:
    """Milliseconds for `answer_ms`: not many where nobody answers."""
    return 5_000 if any(one.fault is Fault.STALL for one in accidents) else 60_000


class CommitNetwork(FaultyNetwork):
    """Passes everything, but for the next commits: each has the accident that is first in the list."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.accidents: list[Accident] = []
        self.commits: list[Seen] = []
        #: Done before the next loads of a table go on.
        self.loads: list[Callable[[], object]] = []
        self._late: list[Seen] = []

    def next_fault(self, seen: Seen) -> Fault | Reply:
        if seen.method == "GET" and "/tables/" in seen.path and self.loads:
            self.loads.pop(0)()
        if seen.method != "POST" or not ("/tables/" in seen.path or "/transactions/" in seen.path):
            return Fault.PASS
        self.commits.append(seen)
        accident = self.accidents.pop(0) if self.accidents else Accident()
        if accident.before is not None:
            accident.before()
        if accident.arrives:
            self.send(seen)
        if accident.late:
            self._late.append(seen)
        return accident.fault

    def release(self) -> list[int]:
        """Let the late requests arrive; how the catalog answers."""
        late, self._late = self._late, []
        return [self.send(seen) for seen in late]

    def send(self, seen: Seen) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            headers = {k: v for k, v in seen.headers.items() if k not in _NOT_PASSED_ON}
            connection.request(seen.method, seen.path, seen.body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()
