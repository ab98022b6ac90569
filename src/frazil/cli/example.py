"""`frazil example`: programs to learn from, and to begin with."""

from __future__ import annotations

import click


@click.group()
def example() -> None:
    """Programs to learn from."""


@example.command(short_help="Made-up sensor readings as JSON files in a generic table.")
def sensors() -> None:
    """Stream made-up sensor readings into a generic table: every few seconds a file with a JSON array.

    The table is registered if it is not there, its files are written with keys that the catalog vends, and
    read back by Spark through S3A. Ctrl-C finishes the file in hand; a later run goes on behind it.

    Settings are read from the environment and from .env.local:

    \b
    LAKEKEEPER          the server                    http://localhost:8181
    WAREHOUSE_ID        warehouse, by id or name      FRAZIL_WAREHOUSE, else the server's default
    TOKEN               who you are; or else          (nobody)
    OAUTH_TOKEN_URL, OAUTH_CLIENT_ID, OAUTH_CLIENT_SECRET, OAUTH_SCOPE
    NAMESPACE, TABLE    the generic table             iot, sensor-readings
    NUM_SENSORS         how many                      5
    NUM_RECORDS         in all; -1: for ever          -1
    BATCH_SIZE          records of a file             10
    BATCH_INTERVAL_MS   from one file to the next     15000
    """
    from frazil.cli.example_sensors import main

    main()


@example.command(short_help="A busy PostgreSQL, and its copy in Iceberg, which follows.")
@click.option(
    "--full",
    is_flag=True,
    help="PostgreSQL and MariaDB through Debezium and Kafka, with all that may come in between.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=15,
    show_default=True,
    help="How long rows change after the copy has its first ones; what --full does meanwhile comes on top.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Another one makes other changes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end; tell on stderr.")
def cdc(full: bool, seconds: float, seed: int, as_json: bool) -> None:
    """Start a PostgreSQL, change its rows at random, and let a pipeline keep a copy of it in Iceberg.

    Rows come, change, go and get other keys meanwhile, transactions are rolled back, and the pipeline is
    killed once (kill -9) and started again. In the end every row is compared, by PyIceberg and, if it is
    installed, by DuckDB; the exit code is 1 if one differs.

    With --full, a PostgreSQL and a MariaDB are followed by Debezium's connectors, through Kafka. Tables get a
    column, a table is added, the pipelines and Kafka Connect are killed, Spark compacts a table while it
    changes, and Spark compares every row as well. It takes a few minutes, and the first time fetches Kafka
    and the connectors into the cache directory.

    PostgreSQL and MariaDB are those of this machine; on Debian and Ubuntu, those that are missing are fetched
    into the cache directory. All services, and a catalog if LAKEKEEPER names none (and WAREHOUSE_ID or
    FRAZIL_WAREHOUSE its warehouse), are made in a temporary directory and removed at the end.
    """
    from frazil.cli.example_cdc import main

    main(seconds, seed, full, as_json)
