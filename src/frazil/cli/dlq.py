"""`frazil dlq`: bad records, and how they are put back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import connect, load, with_spark
from frazil.cli.remote import confirm, plain, print_json, yes_option
from frazil.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from frazil.stream.config import PipelineConfig
    from frazil.stream.dlq import Choice, Replayed

#: Of a long list.
_SHOWN = 50
_CUT = 200
#: Of a value that is shown: characters.
_LONGEST = 4000
#: What a list does not show, and may be large.
_UNLISTED = ("key", "headers", "value")


@click.group(short_help="Bad records: list them, look at one, put repaired ones back.")
def dlq() -> None:
    """Records that could not become rows, and are kept in the dead-letter table of their pipeline."""


def _choosing(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."),
        click.option("--fault", help="Only those of this fault, such as type, missing, broken."),
        click.argument("pipeline"),
        click.argument("file", type=click.Path(path_type=Path, dir_okay=False)),
    ):
        command = option(command)
    return command


@dlq.command(name="list", short_help="The letters that wait.")
@_choosing
def list_(file: Path, pipeline: str, fault: str | None, as_json: bool) -> None:
    """The bad records of PIPELINE in FILE that were not put back, counted by reason and the first of them."""
    from frazil.stream.dlq import Choice

    choice = Choice(fault=fault)
    found = (
        _letters(file, pipeline, choice) if as_json else _letters(file, pipeline, choice, _SHOWN, _UNLISTED)
    )
    letters = found["letters"]
    if as_json:
        print_json([_document(letter) for letter in letters])
        return
    for reason, count in found["counts"]:
        click.echo(f"{count:>9,}  {plain(reason)}")
    if not letters:
        click.echo("No letters wait.")
        return
    click.echo()
    for letter in letters:
        place = f"{letter['topic']}/{letter['partition']}:{letter['offset']}"
        click.echo(f"{plain(place)}  {letter['fault']}  {plain(letter['reason'][:_CUT])}")
    total = sum(count for _, count in found["counts"])
    if total > len(letters):
        click.echo(f"… and {total - len(letters):,} more (--json has all)")


@dlq.command(short_help="One letter with its raw bytes.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("pipeline")
@click.argument("position")
@click.option("--raw", is_flag=True, help="Only the bytes of the record, as they are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def show(file: Path, pipeline: str, position: str, raw: bool, as_json: bool) -> None:
    """The letter of PIPELINE in FILE at POSITION, which is written as `list` does: topic/partition:offset."""
    letters = _letters(file, pipeline, _position(position), 1)["letters"]
    if not letters:
        raise NotFound(f"no letter of pipeline {pipeline} waits at {position}: see `frazil dlq list`")
    (letter,) = letters
    if raw:
        sys.stdout.buffer.write(letter["value"] or b"")
    elif as_json:
        print_json(_document(letter))
    else:
        for name, value in _document(letter).items():
            click.echo(f"{name:<10}  {plain(_shown(str(value), letter[name]))}")


@dlq.command(short_help="Put letters back that are good now.")
@_choosing
@click.option("--position", help="Only the letter there, written topic/partition:offset.")
@click.option(
    "--repair",
    metavar="MODULE:FUNCTION",
    help="A function from the bytes of a record to those of a good one; the module may lie beside FILE.",
)
@yes_option
def replay(
    file: Path,
    pipeline: str,
    fault: str | None,
    as_json: bool,
    position: str | None,
    repair: str | None,
    yes: bool,
) -> None:
    """Decode letters of PIPELINE in FILE again and put those that are good into its table, each once.

    They are good when the pipeline's schema was corrected, or by --repair. The pipeline may run meanwhile.
    What is still bad stays a letter.
    """
    from frazil.stream.config.functions import find_function
    from frazil.stream.dlq import Choice, where_letters_go

    pipelines = load(file, (pipeline,))
    (config,) = pipelines.pipelines
    where_letters_go(config)
    choice = _position(position) if position is not None else Choice(fault=fault)
    function = None if repair is None else find_function(repair, file.resolve().parent)
    confirm(f"Put letters of pipeline {pipeline} back into {config.table.name}?", yes)

    def work(spark: Any) -> Replayed:
        from frazil.lake.catalog import Lake
        from frazil.stream import dlq as letters

        def say(text: str) -> None:
            click.echo(text, err=True)

        with connect(pipelines) as client:
            lake, named = Lake(spark, client), pipelines.catalog.name
            return letters.replay(config, spark, lake, choice, function, say, catalog_name=named)

    done = with_spark(pipelines, work)
    if as_json:
        still = [[bad.topic, bad.partition, bad.offset, bad.reason] for bad in done.still_bad]
        print_json({"letters": done.letters, "rows": done.rows, "still-bad": still})
    else:
        from frazil.stream.observe.texts import counted

        click.echo(
            f"{counted(done.letters, 'letter')} put back as {counted(done.rows, 'row')}, "
            f"{len(done.still_bad):,} still bad"
        )
        for bad in done.still_bad[:_SHOWN]:
            click.echo(f"  {plain(f'{bad.topic}/{bad.partition}:{bad.offset}')}  {plain(bad.reason[:_CUT])}")
    if done.still_bad:
        sys.exit(1)


def _letters(
    file: Path, pipeline: str, choice: Choice, most: int | None = None, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    from frazil.stream.dlq import where_letters_go

    pipelines = load(file, (pipeline,))
    (config,) = pipelines.pipelines
    where_letters_go(config)

    def work(spark: Any) -> dict[str, Any]:
        with connect(pipelines) as client:
            return _read(spark, client, config, choice, most, without)

    return with_spark(pipelines, work)


def _read(
    spark: Any,
    client: Any,
    config: PipelineConfig,
    choice: Choice,
    most: int | None,
    without: tuple[str, ...],
) -> dict[str, Any]:
    from frazil.lake.catalog import Lake
    from frazil.stream.dlq import waiting

    frame = waiting(spark, Lake(spark, client), config, choice)
    counts = frame.groupBy("reason").count().orderBy("count", ascending=False).limit(20).collect()
    shown = frame if most is None else frame.limit(most)
    return {
        "counts": [(row["reason"], row["count"]) for row in counts],
        "letters": shown.drop(*without).toArrow().to_pylist(),
    }


def _position(text: str) -> Choice:
    from frazil.stream.dlq import Choice

    place, _, offset = text.rpartition(":")
    topic, _, partition = place.rpartition("/")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise InvalidInput(f"'{text}' is no position: write topic/partition:offset, such as orders/0:17")
    return Choice(topic=topic, partition=int(partition), offset=int(offset))


def _shown(text: str, value: Any) -> str:
    """A record may be larger than anybody wants to see on a terminal."""
    if len(text) <= _LONGEST:
        return text
    rest = f"{len(value):,} bytes; --raw gives them" if isinstance(value, bytes) else "--json has all"
    return f"{text[:_LONGEST]}… ({rest})"


def _document(letter: dict[str, Any]) -> dict[str, Any]:
    """For scripts: bytes as text if they are, else as hexadecimal digits."""
    return {name: _plain_value(value) for name, value in letter.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if isinstance(value, list):
        return [_document(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
