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
    WAREHOUSE_ID        warehouse, by id or name      the server's default
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
