"""The top of the command line: subcommands, and errors in plain words."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from frazil import __version__
from frazil.core.errors import FrazilError

#: Each is in the module of its name. From running a server to what is in it.
_COMMANDS = (
    "serve",
    "demo",
    "example",
    "plan",
    "run",
    "submit",
    "status",
    "reset",
    "rebuild",
    "snapshot",
    "verify",
    "dlq",
    "sql",
    "correct",
    "hot",
    "put",
    "tier",
    "migrate",
    "client",
    "key",
    "warehouse",
    "namespace",
    "table",
    "changes",
    "lineage",
    "generic",
    "credentials",
)


class _Lazy(click.Group):
    """Imports a command when it is called: nobody waits for the modules of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For a name that is none, click looks for similar ones among the commands that are there.
        for name in (cmd_name,) if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.add_command(getattr(import_module(f"frazil.cli.{name}"), name))
        return self.commands.get(cmd_name)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="frazil")
def cli() -> None:
    """A streaming lakehouse in Python.

    Start here:  frazil serve    (or see it work: frazil demo)

    Completion in the shell:  eval "$(_FRAZIL_COMPLETE=bash_source frazil)"    (or zsh_source, fish_source)
    """


def main() -> None:
    """Entry point; an expected error is one line on standard error and exit code 1."""
    if sys.stdin is None:
        # Closed by whoever started this. An empty one is what every command can read, and ask whether it is
        # a terminal; and no other file gets its number.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    try:
        cli(prog_name="frazil")
    except FrazilError as error:
        from frazil.cli.remote import plain

        # It may quote a file or a server, whose bytes must not steer the terminal.
        click.echo(f"frazil: {plain(error.message)}", err=True)
        sys.exit(1)
