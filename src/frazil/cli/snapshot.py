"""`frazil snapshot`: let the rows of a table be read from the database once more."""

from __future__ import annotations

from pathlib import Path

import click

from frazil.cli.pipelines import lane_of, load, require_packages
from frazil.cli.remote import plain, print_json


@click.command(short_help="Read all rows of a table from its database again.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("pipeline")
@click.option(
    "--table", help="Which of the tables of the pipeline, as namespace.name; needed if there are several."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def snapshot(file: Path, pipeline: str, table: str | None, as_json: bool) -> None:
    """Ask for the rows of one table of PIPELINE of FILE, as they are in the database.

    The pipeline goes on meanwhile; one that does not run reads them when it does. Rows come among the
    changes, so nothing is lost, and nothing older replaces what is newer. Rows that are gone at the source,
    and whose delete was lost, stay.
    """
    require_packages()
    (config,) = load(file, (pipeline,)).pipelines
    from frazil.stream.cdc.signals import ask_for_snapshot

    named = ask_for_snapshot(config, lane_of(config, table))
    if as_json:
        print_json({"pipeline": pipeline, "asked-for": named})
        return
    click.echo(f"Asked for the rows of {plain(named)}; they come with the next rounds of {pipeline}.")
