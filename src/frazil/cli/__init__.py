"""The `frazil` command."""

from frazil.cli.main import main

__all__ = ["main"]
