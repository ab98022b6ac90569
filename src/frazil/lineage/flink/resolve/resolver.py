"""The order in which evidence is asked. The first that names a dataset wins; two of a kind are ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial

from frazil.lineage.flink.config import FlinkConfig
from frazil.lineage.flink.patterns import KNOWN
from frazil.lineage.flink.resolve.catalogs import GatewayCatalogs, ScriptCatalogs, by_catalog
from frazil.lineage.flink.resolve.facts import PARAMETER, JobFacts
from frazil.lineage.flink.resolve.found import Found, found_table
from frazil.lineage.flink.resolve.jobnames import named_sinks
from frazil.lineage.flink.resolve.matching import (
    FILES,
    claimed_names,
    full_name,
    is_called_as_a_table,
    is_other,
    may_be,
    prints_so,
    readings,
    same_name,
)
from frazil.lineage.flink.resolve.metrics import topics
from frazil.lineage.flink.resolve.platforms import Named, Unclear, below_base, of_table
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.flink.resolve.tables import catalog_tables
from frazil.lineage.flink.resolve.topics import KafkaTopics
from frazil.lineage.model import (
    Dataset,
    Direction,
    Endpoint,
    Evidence,
    Resolution,
    TracedJob,
    Unresolved,
)
from frazil.lineage.tables import CatalogTable

#: The catalog that every session has for itself: of one name, and never of one kind.
_BUILT_IN = "default_catalog"
#: What a query gives in a hint.
_OPTIONS = "options."


class Resolver:
    """Resolves the endpoints of jobs. Threads may share one."""

    def __init__(
        self,
        config: FlinkConfig,
        gateway: GatewayCatalogs | None,
        script: ScriptCatalogs | None,
        iceberg: IcebergCatalogs,
        kafka: KafkaTopics,
    ) -> None:
        self._config = config
        self._catalogs = [known for known in (gateway, script) if known is not None]
        self._gateway = gateway
        self._script = script
        self._iceberg = iceberg
        self._kafka = kafka
        #: Tables that the plans of jobs showed to be Iceberg's, and their catalogs. Only ever added to and
        #: looked into, never gone through: other threads add meanwhile.
        self._learned: set[tuple[str, ...]] = set()
        self._learned_catalogs: set[str] = set()

    def resolve(self, traced: TracedJob, facts: JobFacts) -> dict[str, Resolution | Unresolved]:
        """A dataset, or the reason why there is none, for every endpoint of a job."""
        claimed, full = claimed_names(traced), named_sinks(traced)
        answers = {
            endpoint.id: self._one(endpoint, facts, claimed, full.get(endpoint.id))
            for endpoint in traced.endpoints
        }
        self._eliminate(traced, facts, answers)
        return {
            endpoint.id: answer if isinstance(answer, Unresolved) else self._resolution(answer, endpoint)
            for endpoint in traced.endpoints
            for answer in (answers[endpoint.id],)
        }

    def columns(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """All columns of the table of a full name, where a catalog tells them."""
        if len(path) != 3:
            return None
        found: Found | Unclear | None = None
        for known in self._catalogs:
            found = by_catalog(known, path)
            if isinstance(found, Found) and found.columns is not None:
                return found.columns + found.virtual
        found = self._iceberg.at(path)
        return None if found is None else found.columns

    def may_learn(self, traced: TracedJob, answers: Mapping[str, Resolution | Unresolved]) -> bool:
        """Whether another job's plan could still tell what a table of this job is."""
        return any(
            len(endpoint.path) == 3
            and endpoint.path[0] != _BUILT_IN
            and isinstance(answers[endpoint.id], Unresolved)
            for endpoint in traced.endpoints
        )

    def catalog_tables(self) -> Iterator[CatalogTable]:
        """Every table of the catalogs that can be asked."""
        return catalog_tables(self._gateway, self._iceberg, self.dataset)

    def _one(
        self, endpoint: Endpoint, facts: JobFacts, claimed: Set[str], full: tuple[str, ...] | None
    ) -> Found | Unresolved:
        asks: tuple[Callable[[Endpoint, JobFacts], Found | Unclear | None], ...]
        if full is None:
            asks = (self._by_user, self._by_path, partial(self._by_name, claimed=claimed), self._by_metrics)
        else:
            # A table of the same name elsewhere is another one.
            endpoint, asks = replace(endpoint, path=full), (self._by_user, self._by_job_name)
        notes: list[str] = []
        for ask in asks:
            found = ask(endpoint, facts)
            if isinstance(found, Found):
                return self._iceberg.completed(found)
            if isinstance(found, Unclear):
                notes.append(found.reason)
        return self._unresolved(endpoint, notes)

    # --- what the user said

    def _by_user(self, endpoint: Endpoint, facts: JobFacts) -> Found | None:
        for name in (".".join(endpoint.path), endpoint.name):
            if name and (said := facts.parameters.get(f"{PARAMETER}{name}")):
                platform, colon, dataset = said.partition(":")
                if colon and dataset:
                    evidence = Evidence("parameter", f"the job's parameter {PARAMETER}{name}")
                    return Found(Named(platform, dataset), evidence)
        if len(endpoint.path) == 3:
            detail = self._config.catalog_platform_map.get(endpoint.path[0])
            if detail is not None and detail.platform:
                named = Named(detail.platform, ".".join(endpoint.path[1:]))
                found = Found(named, Evidence("config", "catalog_platform_map"), endpoint.path[0])
                return found if prints_so(found, endpoint) else None
        return None

    # --- what a full name leads to

    def _by_path(self, endpoint: Endpoint, facts: JobFacts) -> Found | Unclear | None:
        if len(endpoint.path) != 3:
            return None
        unclear: Unclear | None = None
        for known in self._catalogs:
            found = _hinted(known, endpoint)
            if isinstance(found, Found) and not prints_so(found, endpoint):
                found = Unclear(
                    "Flink's planner named this sink, as none of Iceberg's: it is a temporary table"
                )
            if isinstance(found, Found):
                return found
            unclear = found or unclear
        if is_other(endpoint):
            return unclear
        if (found := self._iceberg.at(endpoint.path)) is not None:
            return found
        named = Named("iceberg", ".".join(endpoint.path[1:]))
        if endpoint.hints.get("connector") == "iceberg":
            self._learned.add(endpoint.path)
            self._learned_catalogs.add(endpoint.path[0])
            return Found(named, Evidence("plan", endpoint.operator), endpoint.path[0])
        if unclear is None and self._is_learned(endpoint):
            detail = f"another job writes Iceberg tables of the catalog {endpoint.path[0]}"
            return Found(named, Evidence("plan", detail), endpoint.path[0])
        return unclear

    def _is_learned(self, endpoint: Endpoint) -> bool:
        """A table that is read may be a temporary one of any kind; a sink of such a one prints otherwise."""
        if endpoint.direction is Direction.READ:
            return endpoint.path in self._learned
        return endpoint.path[0] != _BUILT_IN and endpoint.path[0] in self._learned_catalogs

    # --- what a name alone leads to

    def _by_name(self, endpoint: Endpoint, facts: JobFacts, claimed: Set[str]) -> Found | Unclear | None:
        if endpoint.direction is Direction.WRITE:
            written = [
                found
                for found in self._iceberg.written_by(facts.id, facts.started)
                if same_name(found, endpoint) and prints_so(found, endpoint)
            ]
            if not full_name(endpoint):
                written = [
                    found for found in written if found.named.name not in claimed and may_be(found, endpoint)
                ]
            if (one := self._only(written)) is not None:
                return one
        if (hit := self._by_pattern(endpoint)) is not None or len(endpoint.path) == 3:
            return hit
        full = (found for found in self._in_full(endpoint.name) if prints_so(found, endpoint))
        if (one := self._only(full)) is not None:
            return one
        if not is_called_as_a_table(endpoint):
            return None
        one = self._only(found for found in self._named(endpoint) if may_be(found, endpoint))
        asked = self._catalogs if is_other(endpoint) else [*self._catalogs, self._iceberg]
        if isinstance(one, Found) and not all(known.whole for known in asked):
            return Unclear(f"not all catalogs could be asked whether {one.named.name} is the only such table")
        return one

    def _by_job_name(self, endpoint: Endpoint, facts: JobFacts) -> Found | Unclear | None:
        unclear: Unclear | None = None
        for known in self._catalogs:
            found = by_catalog(known, endpoint.path)
            # Iceberg's sinks name themselves, so this is a temporary table in front of one of Iceberg's.
            if isinstance(found, Found) and found.named.platform != "iceberg":
                detail = f"{found.evidence.detail}; the job's name has {'.'.join(endpoint.path)}"
                return replace(found, evidence=Evidence(found.evidence.kind, detail))
            unclear = found if isinstance(found, Unclear) else unclear
        return unclear

    def _in_full(self, name: str) -> Iterator[Found]:
        """Tables of a full name with dots inside of its parts, wherever they are: `pg.shop.public.users`."""
        for path in readings(name):
            for known in self._catalogs:
                inner = below_base(known.kind(path[0]), path)
                if inner == path and known.table(path) is None:
                    continue
                if isinstance(found := by_catalog(known, inner), Found):
                    yield found
            if (at := self._iceberg.at(path)) is not None:
                yield at

    def _by_pattern(self, endpoint: Endpoint) -> Found | None:
        """Only what programs named themselves: in what the SQL planner prints, names are those of tables."""
        if "table=[" in endpoint.operator:
            return None
        for pattern in (*self._config.operator_patterns, *KNOWN):
            if (hit := pattern.found(endpoint.operator, endpoint.direction.value)) is not None:
                return Found(Named(*hit), Evidence("pattern", f"{endpoint.operator!r} ~ {pattern.pattern!r}"))
        return None

    def _only(self, candidates: Iterable[Found]) -> Found | Unclear | None:
        """The one dataset that they are. Several are never chosen from."""
        datasets = {self.dataset(found): found for found in reversed(list(candidates))}
        if len(datasets) > 1:
            names = ", ".join(sorted(f"{found.catalog}: {found.named.name}" for found in datasets.values()))
            return Unclear(f"several tables have that name ({names})")
        return next(iter(datasets.values()), None)

    def _named(self, endpoint: Endpoint) -> Iterator[Found]:
        """Tables of that name anywhere. A shorter path must be the end of the full one."""
        wanted = endpoint.path or (endpoint.name,)
        seen: set[tuple[str, ...]] = set()
        for known in self._catalogs:
            for path in known.named(wanted[-1]):
                if path[-len(wanted) :] == wanted and path not in seen:
                    seen.add(path)
                    found = by_catalog(known, path)
                    if isinstance(found, Found):
                        yield found
        yield from self._iceberg.named(wanted)

    # --- what a running job shows

    def _by_metrics(self, endpoint: Endpoint, facts: JobFacts) -> Found | Unclear | None:
        if endpoint.direction is not Direction.READ:
            return None
        found = topics(facts.topics(endpoint.vertex), endpoint.name)
        if len(found) > 1:
            return Unclear(f"it reads several topics: {', '.join(sorted(found))}")
        for topic in found:
            detail = f"its metrics name the topic {topic}"
            if "_" not in topic:
                return Found(Named("kafka", topic), Evidence("metrics", detail))
            meant = self._kafka.meant(topic)
            if len(meant) == 1:
                detail += f", and only {meant[0]} of all topics is written so"
                return Found(Named("kafka", meant[0]), Evidence("kafka", detail))
            which = f" ({', '.join(meant)})" if meant else ""
            return Unclear(f"{detail}, in which each _ may stand for a dot{which}")
        return None

    # --- what is left over

    def _eliminate(self, traced: TracedJob, facts: JobFacts, answers: dict[str, Found | Unresolved]) -> None:
        """A table that the job wrote and that no sink is yet must be the one sink that is left."""
        sinks = [endpoint for endpoint in traced.endpoints if endpoint.direction is Direction.WRITE]
        left = [endpoint for endpoint in sinks if isinstance(answers[endpoint.id], Unresolved)]
        if len(left) != 1 or any(_renamed(answers[sink.id]) and not is_other(sink) for sink in sinks):
            return
        taken = {answer.named for answer in answers.values() if isinstance(answer, Found)}
        tables = [
            found for found in self._iceberg.written_by(facts.id, facts.started) if found.named not in taken
        ]
        if len(tables) == 1 and may_be(tables[0], left[0]):
            answers[left[0].id] = tables[0]

    def _resolution(self, found: Found, endpoint: Endpoint) -> Resolution:
        columns: tuple[str | None, ...] | None = found.columns
        if endpoint.direction is Direction.WRITE:
            columns = columns if found.written is None else found.written
        elif columns is not None:
            columns += found.virtual
        return Resolution(self.dataset(found), (found.evidence,), columns, found.fields)

    def dataset(self, found: Found) -> Dataset:
        """With the instance that the user gave for the catalog, else for the platform."""
        config, platform = self._config, found.named.platform
        detail = config.catalog_platform_map.get(found.catalog or "")
        instance = detail.platform_instance if detail is not None else None
        if instance is None:
            instance = (config.platform_instance_map or {}).get(platform)
        return Dataset(platform, found.named.name, config.env, instance)

    def _unresolved(self, endpoint: Endpoint, notes: list[str]) -> Unresolved:
        shown = ".".join(endpoint.path) or endpoint.name or endpoint.operator
        verb = "reads" if endpoint.direction is Direction.READ else "writes"
        reason = "; ".join(notes) or self._looked()
        return Unresolved(f"{verb} {shown}", reason, self._remedy(endpoint), endpoint.id)

    def _looked(self) -> str:
        places = ["the plan names no connector"]
        if self._gateway is not None:
            places.append("the SQL Gateway's session does not see it")
        if self._script is not None:
            places.append("the DDL file does not define it")
        if self._iceberg:
            places.append("no snapshot in iceberg_catalogs is of this job")
        return ", ".join(places)

    def _remedy(self, endpoint: Endpoint) -> str:
        if not endpoint.path and endpoint.name in FILES:
            return (
                f"leave pipeline.name unset, for then Flink names the job after its tables, or set the job's "
                f"parameter {PARAMETER}{endpoint.name}"
            )
        if len(endpoint.path) != 3 and "[" not in endpoint.operator:
            ways = ["an entry of operator_patterns for its name"]
        else:
            ways = ["its CREATE TABLE in ddl_file"]
            if self._gateway is None:
                ways.insert(0, "connection.sql_gateway_url")
            if len(endpoint.path) == 3 and endpoint.path[0] != _BUILT_IN:
                ways.append(f"catalog_platform_map for {endpoint.path[0]}")
        if not self._iceberg and endpoint.direction is Direction.WRITE:
            ways.append("iceberg_catalogs, if it is an Iceberg table")
        same = endpoint.name in self._kafka
        hint = "; a Kafka topic has the same name, which does not tell that it is the one" if same else ""
        return f"set {', or '.join(ways)}{hint}"


def _renamed(answer: Found | Unresolved) -> bool:
    """Whether a sink has a name from the user, so that it may be a table that has another one elsewhere."""
    return isinstance(answer, Found) and answer.evidence.kind in ("parameter", "config")


def _hinted(known: GatewayCatalogs | ScriptCatalogs, endpoint: Endpoint) -> Found | Unclear | None:
    """What a catalog tells; options that the query gives come before those of the table."""
    found, table = by_catalog(known, endpoint.path), known.table(endpoint.path)
    given = {
        key.removeprefix(_OPTIONS): value for key, value in endpoint.hints.items() if key.startswith(_OPTIONS)
    }
    if table is None or "connector" not in table.options or not given:
        return found
    told = of_table({**table.options, **given}, endpoint.path)
    if told is None or told == of_table(table.options, endpoint.path):
        return found
    if isinstance(told, Unclear):
        return told
    evidence = Evidence("plan", f"the query's OPTIONS for {'.'.join(endpoint.path)}")
    return found_table(told, table, evidence, endpoint.path[0])
