"""The top of the command line: subcommands, and errors in plain words."""

from __future__ import annotations

import sys

import click

from frazil import __version__
from frazil.cli.client import client
from frazil.cli.credentials import credentials
from frazil.cli.demo import demo
from frazil.cli.generic import generic
from frazil.cli.key import key
from frazil.cli.migrate import migrate
from frazil.cli.namespace import namespace
from frazil.cli.serve import serve
from frazil.cli.table import table
from frazil.cli.warehouse import warehouse
from frazil.core.errors import FrazilError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="frazil")
def cli() -> None:
    """A streaming lakehouse in Python.

    Start here:  frazil serve    (or see it work: frazil demo)

    Completion in the shell:  eval "$(_FRAZIL_COMPLETE=bash_source frazil)"    (or zsh_source, fish_source)
    """


cli.add_command(serve)
cli.add_command(migrate)
cli.add_command(client)
cli.add_command(key)
cli.add_command(warehouse)
cli.add_command(namespace)
cli.add_command(table)
cli.add_command(generic)
cli.add_command(credentials)
cli.add_command(demo)


def main() -> None:
    """Entry point; an expected error is one line on standard error and exit code 1."""
    try:
        cli(prog_name="frazil")
    except FrazilError as error:
        click.echo(f"frazil: {error.message}", err=True)
        sys.exit(1)
