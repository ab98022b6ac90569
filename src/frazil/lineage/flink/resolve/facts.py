"""What can be asked about a job beside its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from frazil.core.errors import FrazilError, NotAllowed, NotFound
from frazil.lineage.flink.resolve.metrics import read_topics

#: A parameter of a job that tells a dataset: `lineage.<operator or table> = <platform>:<name>`.
PARAMETER = "lineage."


@dataclass
class JobFacts:
    """What can be asked about one job beside its plan; each is asked when it is needed, once.

    Many jobs wait for others with it: of what was answered, only what may be looked at again is kept.
    """

    id: str
    ask_parameters: Callable[[], Mapping[str, str]]
    ask_metrics: Callable[[str], tuple[str, ...]]
    failed: Callable[[str], None]
    #: When this execution began, in milliseconds since 1970.
    started: int | None = None
    #: Whether its parameters, which come before all other evidence, may be had another time.
    doubtful: bool = False
    _topics: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict, repr=False)

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """Those that tell datasets."""
        try:
            given = self.ask_parameters()
        except FrazilError as error:
            # Those that nobody may read are as good as none.
            self.doubtful = not isinstance(error, NotAllowed | NotFound)
            self.failed(error.message)
            return {}
        return {name: value for name, value in given.items() if name.startswith(PARAMETER)}

    def topics(self, vertex: str) -> frozenset[tuple[str, str]]:
        """Operators and topics, as the names of a vertex's metrics have them."""
        if vertex not in self._topics:
            try:
                self._topics[vertex] = read_topics(self.ask_metrics(vertex))
            except FrazilError as error:
                self.failed(error.message)
                self._topics[vertex] = frozenset()
        return self._topics[vertex]
