"""What the commands about hot tables share: where Kafka and the catalog are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from frazil.cli.pipelines import require_answer, require_packages
from frazil.cli.quiet_spark import quiet_spark
from frazil.cli.remote import Remote, what_next
from frazil.core.errors import FrazilError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.hot.cluster import Cluster

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
#: Taken if it is there and nothing else is said.
USUAL = Path("hot.yaml")
#: What tiering measured lies there, if nothing else is said.
LOG_TABLE = "frazil.tiering_log"


@dataclass(frozen=True)
class At(Remote):
    """A cluster, a client of its catalog, and the form in which answers are printed."""

    cluster: Cluster

    @contextmanager
    def spark(self) -> Iterator[SparkSession]:
        """A session for one command."""
        require_answer(self.client)
        with quiet_spark(self.cluster.spark) as spark:
            yield spark


def cluster_options(command: F) -> F:
    """`--config`, `--kafka`, `--uri` and `--warehouse`."""
    options = (
        click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="FRAZIL_HOT",
            help="Where Kafka and the catalog are.  [env: FRAZIL_HOT; hot.yaml, if it is there]",
        ),
        click.option(
            "--kafka", metavar="HOST:PORT", help="Kafka's brokers.  [those of the file; env: FRAZIL_KAFKA]"
        ),
        click.option(
            "--uri", metavar="URL", help="The catalog.  [that of the file; env: LAKEKEEPER, FRAZIL_URI]"
        ),
        click.option(
            "-w",
            "--warehouse",
            metavar="NAME",
            help="Warehouse, by name or id.  [that of the file; env: FRAZIL_WAREHOUSE]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def log_table_of(text: str) -> str | None:
    """The table that `--log-table` names; None: there is none.

    >>> log_table_of("shop.tiering"), log_table_of("none")
    ('shop.tiering', None)
    """
    return None if text.lower() == "none" else text


def cluster_of(
    config_file: Path | None,
    kafka: str | None = None,
    uri: str | None = None,
    warehouse: str | None = None,
    datalake: Mapping[str, str] | None = None,
) -> Cluster:
    """What the options say; a file in the usual place counts, too. `datalake`: flat keys of Fluss."""
    require_packages()
    from frazil.client.address import server_uri
    from frazil.hot.cluster import BROKERS, load_cluster

    usual = USUAL if config_file is None and USUAL.is_file() else None
    cluster = load_cluster(config_file or usual, datalake=datalake)
    if kafka:
        cluster = replace(cluster, kafka={**cluster.kafka, BROKERS: kafka})
    catalog = cluster.catalog
    if uri:
        catalog = replace(catalog, uri=server_uri(uri))
    if warehouse:
        catalog = replace(catalog, warehouse=warehouse)
    return replace(cluster, catalog=catalog)


def at_cluster(command: Callable[Concatenate[At, P], None]) -> Callable[P, None]:
    """Give a command those options, `--json`, and as its first argument what they say."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        names = ("config_file", "kafka", "uri", "warehouse")
        given: dict[str, Any] = {name: kwargs.pop(name) for name in names}
        as_json = bool(kwargs.pop("as_json"))
        cluster = cluster_of(**given)
        from frazil.client import Retry

        # Somebody waits: that a server is down is to be said soon.
        with cluster.client(retry=Retry(attempts=3)) as client:
            try:
                command(At(client, as_json, cluster), *args, **kwargs)
            except FrazilError as error:
                hints = what_next(error, cluster.catalog.warehouse)
                raise FrazilError("\n".join([error.message, *hints])) from None

    decorated: Callable[..., None] = click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, for scripts."
    )(run)
    return cluster_options(decorated)
