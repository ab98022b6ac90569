"""What commands that talk to a server share: its address, output for people and scripts, questions."""

from __future__ import annotations

import functools
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from frazil.core.errors import (
    FrazilError,
    InvalidInput,
    NoSuchGenericTable,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    Unauthenticated,
)

if TYPE_CHECKING:
    from frazil.client import Client

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_START = "Start a server with `frazil serve`, or say where it is with --uri or FRAZIL_URI."
_NEXT: dict[type[FrazilError], str] = {
    Unauthenticated: "Where there is no identity provider, `frazil client create NAME` beside the server "
    "makes a client id and its secret.",
    NoSuchWarehouse: "See what there is with `frazil warehouse list`.",
    NoSuchNamespace: "See what there is with `frazil namespace list`, or create it with `frazil namespace "
    "create` (and --parents). A dot inside a name is written '\\.'.",
    NoSuchTable: "See what there is with `frazil table list NAMESPACE` or, for tables that are not "
    "Iceberg's, `frazil generic list NAMESPACE`.",
    NoSuchGenericTable: "See what there is with `frazil generic list NAMESPACE` or, for Iceberg's tables, "
    "`frazil table list NAMESPACE`.",
}
_INSIDE = (NoSuchNamespace, NoSuchTable, NoSuchGenericTable)


@dataclass(frozen=True)
class Remote:
    """A server, and the form in which its answers are printed."""

    client: Client
    as_json: bool

    def show(self, value: Any, columns: Mapping[str, Callable[[Any], object]]) -> None:
        """A list: one line for each item, or JSON."""
        if self.as_json:
            print_json(value)
            return
        print_table(list(columns), [[make(item) for make in columns.values()] for item in value])

    def describe(self, value: Any, fields: Mapping[str, object]) -> None:
        """One thing: a line for each of its fields, or JSON."""
        if self.as_json:
            print_json(value)
            return
        width = max(map(len, fields), default=0)
        for name, text in fields.items():
            for line in plain(text).splitlines() or [""]:
                click.echo(f"{name:<{width}}  {line}".rstrip())
                name = ""

    def say(self, sentence: str, value: Any = None) -> None:
        """What was done."""
        if self.as_json:
            print_json(value if value is not None else {"done": sentence})
        else:
            click.echo(plain(sentence))


def remote(
    *, warehouse: bool = True, json_flag: bool = True
) -> Callable[[Callable[Concatenate[Remote, P], None]], Callable[P, None]]:
    """Give a command the options of a server and, as its first argument, the server itself."""

    def decorate(command: Callable[Concatenate[Remote, P], None]) -> Callable[P, None]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            from frazil.client import Client, Retry

            uri, project = kwargs.pop("uri"), kwargs.pop("project")
            name, as_json = kwargs.pop("warehouse", None), kwargs.pop("as_json", False)
            # Somebody waits: that a server is down is to be said soon.
            retry = Retry(attempts=3)
            with Client(_text(uri), warehouse=_text(name), project=_text(project), retry=retry) as client:
                try:
                    command(Remote(client, bool(as_json)), *args, **kwargs)
                except FrazilError as error:
                    raise FrazilError("\n".join([error.message, *what_next(error, _text(name))])) from None

        decorated: Callable[..., None] = run
        for option in reversed(_options(warehouse, json_flag)):
            decorated = option(decorated)
        return decorated

    return decorate


def what_next(error: FrazilError, warehouse: str | None) -> list[str]:
    """What somebody who got this error wants to do or know."""
    from frazil.client.exchange import UNREACHABLE

    if error.kind == UNREACHABLE:
        return [_START]
    found = [hint for kind, hint in _NEXT.items() if isinstance(error, kind)]
    if isinstance(error, _INSIDE):
        where = "the server's default warehouse" if warehouse is None else f"the warehouse {warehouse}"
        found.insert(0, f"It was looked for in {where}; choose another one with --warehouse.")
    return found


def _options(warehouse: bool, json_flag: bool) -> list[Callable[[F], F]]:
    found = [
        click.option(
            "--uri", metavar="URL", help="The server.  [env: LAKEKEEPER, FRAZIL_URI; http://localhost:8181]"
        )
    ]
    if warehouse:
        found.append(
            click.option(
                "-w",
                "--warehouse",
                metavar="NAME",
                envvar="FRAZIL_WAREHOUSE",
                help="Warehouse, by name or id.  [env: FRAZIL_WAREHOUSE; the server's default]",
            )
        )
    found.append(click.option("--project", metavar="ID", help="Project; without it, the server's default."))
    if json_flag:
        found.append(click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."))
    return found


def yes_option(command: F) -> F:
    """`--yes`: do not ask."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, yes: bool) -> None:
    """Ask on a terminal; where nobody can answer, `--yes` must be said."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes if you mean it: nobody is there to answer.")
    click.confirm(question, abort=True)


def pairs(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """`key=value` options as a dictionary."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not of the form key=value")
        found[key] = value
    return found


def property_option(command: F) -> F:
    """`--property key=value`, repeated."""
    option = click.option(
        "-p",
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        callback=pairs,
        help="Repeat for more.",
    )
    return option(command)


def read_json(path: str, what: str) -> Any:
    """A JSON document from a file, or from standard input as `-`."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise InvalidInput(f"{what}: cannot read {path}: {error.strerror}") from None
    except ValueError:
        # What stands there may be a secret.
        raise InvalidInput(f"{what}: {path} is not a JSON document") from None


def print_json(value: Any) -> None:
    """Anything that the client returns, in the names of the API."""
    import msgspec

    from frazil.client import StorageConfig

    def custom(item: Any) -> Any:
        if isinstance(item, StorageConfig):
            return dict.fromkeys(item, "***")
        raise TypeError(f"cannot print a {type(item).__name__}")

    builtins = msgspec.to_builtins(value, enc_hook=custom)
    click.echo(json.dumps(builtins, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns. Without rows nothing is printed but a remark beside the output."""
    if not Sheet().print(columns, rows):
        click.echo("none", err=True)


class Sheet:
    """A table that is printed in parts: under one head, until the columns are others."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._widths: list[int] = []

    def print(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
        """Aligned, with what was printed before as far as that was wide enough; how many rows there were."""
        cells = [[plain(cell) for cell in row] for row in rows]
        if not cells:
            return 0
        if self._columns != list(columns):
            self._columns, self._widths = list(columns), [0] * len(columns)
        lines = [[name.upper() for name in columns], *cells]
        begins = not any(self._widths)
        self._widths = [
            max(width, *(_width(line[index]) for line in lines)) for index, width in enumerate(self._widths)
        ]
        for number, line in enumerate(lines if begins else cells):
            padded = (c + " " * (width - _width(c)) for c, width in zip(line, self._widths, strict=True))
            text = "  ".join(padded).rstrip()
            click.echo(click.style(text, bold=True) if begins and number == 0 else text)
        return len(cells)


def json_value(value: Any) -> Any:
    """What JSON has no type or no word for, as text; bytes in hexadecimal."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {name: json_value(one) for name, one in value.items()}
        case list() | tuple():
            return [json_value(one) for one in value]
        case bytes():
            return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def plain(value: object) -> str:
    """A value on a terminal: what would steer the terminal is shown as a question mark."""
    if value is None:
        return "-"
    text = "yes" if value is True else "no" if value is False else str(value)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def iso(moment: datetime | None) -> str | None:
    """A moment of UTC as scripts read it, to the millisecond."""
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _width(text: str) -> int:
    """Columns on a terminal: East Asian characters take two, accents that stand alone none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
