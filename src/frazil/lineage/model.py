"""What lineage is made of, whatever engine it was read from.

Two stages. A reader of plans gives a `TracedJob`: the job, the places where it reads and writes as its plan
names them (`Endpoint`), which of them feeds which, and the columns of each written place by position.
Resolution then says for each endpoint which dataset it is (`Resolution`) or why that is not known
(`Unresolved`), and `frazil.lineage.binding.bind` makes a `JobLineage` of both: edges between datasets and
between their columns.

What is not known is always said with its reason and with what would resolve it. Nothing is guessed: an edge
that is here is one that the evidence names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


@dataclass(frozen=True, order=True)
class Dataset:
    """A table, topic or path of a platform, as DataHub and OpenLineage name it."""

    platform: str
    name: str
    env: str = "PROD"
    platform_instance: str | None = None

    def __str__(self) -> str:
        return f"{self.platform}:{self.name}"


class Direction(StrEnum):
    """Whether a job reads from an endpoint or writes to it."""

    READ = "read"
    WRITE = "write"


class Derivation(IntEnum):
    """How an output column was made of an input column; the strongest step on the way counts."""

    COPY = 0  #: the value itself, perhaps under another name
    TRANSFORMATION = 1  #: computed from the value, row by row; a cast counts
    AGGREGATION = 2  #: computed from the values of several rows


@dataclass(frozen=True)
class Evidence:
    """What told something, for reports: `kind` is one word (`plan`, `gateway`, `snapshot`, …)."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Endpoint:
    """A place where a job reads or writes, as its plan names it, before it is known which dataset that is."""

    #: Unique in its job and the same at every reading of the same plan.
    id: str
    direction: Direction
    #: The name in the plan: a table's last part, or the name that the operator carries.
    name: str
    #: The id of the vertex that holds the operator.
    vertex: str
    #: The operator as printed, for patterns that look for a connector in it.
    operator: str
    #: Catalog, database and table where the plan tells them; a path may also be shorter or empty.
    path: tuple[str, ...] = ()
    #: The columns in order, as the plan names them; None where it does not. A reader's are the columns of the
    #: table, a writer's are those of the query, which the table's own columns take by position.
    columns: tuple[str, ...] | None = None
    #: What else the operator says of itself: `connector`, `topic`, `temporal`, `options.…`. It never
    #: prints, for options may be passwords.
    hints: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, order=True)
class Input:
    """A column of an endpoint that is read; `path` is the way into it where only a field of it is used."""

    endpoint: str
    column: str
    path: tuple[str, ...] = ()
    derivation: Derivation = Derivation.COPY


@dataclass(frozen=True)
class OutputColumn:
    """One column that an endpoint is given, and every column that its value came from.

    `unknown` says why the inputs are not (all) known; those listed are right all the same.
    """

    endpoint: str
    position: int
    #: The name in the query, which need not be that of the table's column.
    name: str
    inputs: tuple[Input, ...] = ()
    unknown: str | None = None


@dataclass(frozen=True)
class Flow:
    """Rows of one endpoint can reach another: an edge between datasets once both are resolved."""

    source: str
    sink: str


@dataclass(frozen=True)
class Vertex:
    """A node of the running job, with the vertices that feed it."""

    id: str
    name: str
    inputs: tuple[str, ...] = ()
    parallelism: int | None = None


@dataclass(frozen=True)
class Job:
    """A job as its engine knows it; times are milliseconds since 1970, None where they are not known."""

    id: str
    name: str
    streaming: bool | None = None
    state: str | None = None
    started: int | None = None
    ended: int | None = None
    vertices: tuple[Vertex, ...] = ()


@dataclass(frozen=True)
class Unresolved:
    """Something that the evidence does not tell: where, why, and what would resolve it."""

    where: str
    reason: str
    remedy: str
    #: The endpoint it is about, where it is about one.
    endpoint: str | None = None


@dataclass(frozen=True)
class TracedJob:
    """A job with what its plan alone tells."""

    job: Job
    endpoints: tuple[Endpoint, ...] = ()
    flows: tuple[Flow, ...] = ()
    columns: tuple[OutputColumn, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()

    def endpoint(self, id_: str) -> Endpoint:
        """The endpoint of that id."""
        return next(endpoint for endpoint in self.endpoints if endpoint.id == id_)


@dataclass(frozen=True)
class Resolution:
    """Which dataset an endpoint is, what told so, and the dataset's columns where they are known.

    `columns` are those of the table that is read, or those that a writer is given, in that order: None for
    one of which only the place is known. `fields` maps a column to the names of its nested fields, joined by
    dots, where they are known.
    """

    dataset: Dataset
    evidence: tuple[Evidence, ...] = ()
    columns: tuple[str | None, ...] | None = None
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class DatasetEdge:
    """A job made `downstream` from `upstream`."""

    upstream: Dataset
    downstream: Dataset


@dataclass(frozen=True, order=True)
class ColumnEdge:
    """A column was made from another; a nested field is written with dots after its column."""

    upstream: Dataset
    upstream_column: str
    downstream: Dataset
    downstream_column: str
    derivation: Derivation = Derivation.COPY


@dataclass(frozen=True)
class Use:
    """A dataset that a vertex of a job reads or writes."""

    vertex: str
    direction: Direction
    dataset: Dataset
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class JobLineage:
    """A job with datasets and edges: what is emitted and drawn."""

    job: Job
    uses: tuple[Use, ...] = ()
    edges: tuple[DatasetEdge, ...] = ()
    columns: tuple[ColumnEdge, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()

    def datasets(self, direction: Direction) -> tuple[Dataset, ...]:
        """The datasets that the job reads or writes, each once, in order of appearance."""
        return tuple(dict.fromkeys(use.dataset for use in self.uses if use.direction is direction))
