"""`frazil lineage`: where tables and columns came from."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import parse_qs, urlsplit

import click

from frazil.cli.recipe import read_recipe
from frazil.cli.remote import plain, print_json
from frazil.core.errors import InvalidConfig
from frazil.lineage.draw import Form, draw, select
from frazil.lineage.flink.config import FlinkConfig, flink_config
from frazil.lineage.flink.read import FlinkReader, Problem
from frazil.lineage.model import Dataset, JobLineage


@click.group()
def lineage() -> None:
    """See where tables and columns came from."""


@lineage.command()
@click.argument("url")
@click.option("--table", metavar="NAME", help="Only what this table came from, and what came from it.")
@click.option("--column", metavar="NAME", help="The same for one column.")
@click.option("--columns", is_flag=True, help="Draw columns, not tables and jobs.")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Form]),
    default=Form.TEXT.value,
    help="How to draw it.",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.option("--gateway", metavar="URL", help="The SQL Gateway, which knows catalogs and tables.")
@click.option(
    "--iceberg",
    metavar="NAME=URI",
    multiple=True,
    help="An Iceberg REST catalog by its name in Flink; may end in ?warehouse=NAME. Again for more.",
)
@click.option("--ddl", metavar="FILE", help="CREATE TABLE statements of what no catalog remembers.")
@click.option(
    "--recipe",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A DataHub recipe, whose settings are used.",
)
def flink(
    url: str,
    table: str | None,
    column: str | None,
    columns: bool,
    form: str,
    as_json: bool,
    gateway: str | None,
    iceberg: tuple[str, ...],
    ddl: str | None,
    recipe: Path | None,
) -> None:
    """Draw the lineage of the jobs of a Flink cluster; URL is its JobManager's.

    No DataHub is needed. Credentials are FLINK_TOKEN, or FLINK_USERNAME and FLINK_PASSWORD, for Flink, and
    TOKEN for Iceberg catalogs. What could not be resolved is told on standard error, with what would help.
    The exit code is 1 if something could not be read, a job, say, or a catalog; the rest is drawn even then.

    \b
    frazil lineage flink http://localhost:8081 --gateway http://localhost:8083
    frazil lineage flink http://localhost:8081 --table db.orders --column amount
    frazil lineage flink http://localhost:8081 --iceberg ice=http://localhost:8181/catalog --format mermaid
    """
    settings = _settings(url, gateway, iceberg, ddl, recipe)
    problems: list[Problem] = []

    def report(problem: Problem) -> None:
        problems.append(problem)
        _say(f"frazil: {problem.where}: {problem.message}")

    with FlinkReader(settings, report) as reader:
        found = [read.lineage for read in reader.jobs()]
    if as_json:
        selected = select(found, table=table, column=column, columns=columns)
        print_json([_document(job) for job in selected])
    else:
        drawn = draw(
            found, Form(form), table=table, column=column, columns=columns, width=_terminal_width(sys.stdout)
        )
        click.echo(drawn.rstrip("\n"))
    # Of all jobs: what is not resolved may be the table that was asked for.
    for job in found:
        for item in job.unresolved:
            _say(f"unresolved: {job.job.name} {item.where}: {item.reason}; {item.remedy}")
    if problems:
        sys.exit(1)


def _say(message: str) -> None:
    """On standard error, folded between words if that is a terminal."""
    text = plain(message)
    if (width := _terminal_width(sys.stderr)) is not None:
        text = textwrap.fill(
            text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    click.echo(text, err=True)


def _terminal_width(stream: TextIO) -> int | None:
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _settings(
    url: str, gateway: str | None, iceberg: tuple[str, ...], ddl: str | None, recipe: Path | None
) -> FlinkConfig:
    """A recipe's settings, with what was given on the command line in their place, or beside its catalogs."""
    given = {} if recipe is None else read_recipe(recipe)
    connection = {**_group(given, "connection"), "rest_api_url": url}
    if gateway is not None:
        connection["sql_gateway_url"] = gateway
    for name in ("token", "username", "password"):
        if value := os.environ.get(f"FLINK_{name.upper()}"):
            connection[name] = value
    given["connection"] = connection
    if iceberg:
        catalogs = dict(_catalog(text) for text in iceberg)
        given["iceberg_catalogs"] = {**_group(given, "iceberg_catalogs"), **catalogs}
    if ddl is not None:
        given["ddl_file"] = ddl
    return flink_config(given)


def _group(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Settings of a recipe that belong together; a name with nothing behind it is None in YAML."""
    found = given.get(name) or {}
    if not isinstance(found, Mapping):
        raise InvalidConfig(f"--recipe: source.config.{name} is not legal. Legal: names with their values")
    return found


def _catalog(text: str) -> tuple[str, dict[str, str]]:
    name, _, uri = text.partition("=")
    if not name or not uri:
        raise InvalidConfig(f"--iceberg: {text!r} is not legal. Legal: ice=http://localhost:8181/catalog")
    parts = urlsplit(uri)
    catalog = {"uri": parts._replace(query="").geturl()}
    if warehouse := parse_qs(parts.query).get("warehouse"):
        catalog["warehouse"] = warehouse[0]
    if token := os.environ.get("TOKEN"):
        catalog["token"] = token
    return name, catalog


def _document(job: JobLineage) -> dict[str, Any]:
    return {
        "job": {"id": job.job.id, "name": job.job.name, "state": job.job.state},
        "uses": [
            {
                "direction": use.direction.value,
                "dataset": _dataset(use.dataset),
                "evidence": [{"kind": one.kind, "detail": one.detail} for one in use.evidence],
            }
            for use in job.uses
        ],
        "edges": [
            {"upstream": _dataset(edge.upstream), "downstream": _dataset(edge.downstream)}
            for edge in job.edges
        ],
        "columns": [
            {
                "upstream": {**_dataset(edge.upstream), "column": edge.upstream_column},
                "downstream": {**_dataset(edge.downstream), "column": edge.downstream_column},
                "derivation": edge.derivation.name.lower(),
            }
            for edge in job.columns
        ],
        "unresolved": [
            {"where": item.where, "reason": item.reason, "remedy": item.remedy} for item in job.unresolved
        ],
    }


def _dataset(dataset: Dataset) -> dict[str, Any]:
    found = {"platform": dataset.platform, "name": dataset.name, "env": dataset.env}
    return found if dataset.platform_instance is None else {**found, "instance": dataset.platform_instance}
