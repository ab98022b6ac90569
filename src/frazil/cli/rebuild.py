"""`frazil rebuild`: a pipeline's whole result, computed anew and swapped in."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import load, require_packages, with_spark
from frazil.cli.remote import confirm, plain, print_json, yes_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.core.errors import FrazilError
    from frazil.stream.events import Event
    from frazil.stream.rebuild.loop import Rebuilt

#: Seconds between two lines where nobody watches a terminal.
_QUIET_SECONDS = 10.0


@click.command(short_help="Compute a pipeline's table anew from its source, and swap it in.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("pipeline", required=False)
@click.option(
    "--dry-run", "--diff", is_flag=True, help="Say what would change, and leave the table as it is."
)
@click.option(
    "--history",
    metavar="TABLE",
    help="A table that keeps the records of the topics, for those that the log does not have any more.",
)
@click.option("--discard-others", is_flag=True, help="Let rows go that others than the pipeline wrote.")
@click.option(
    "--abandon", is_flag=True, help="Only stop a rebuild that runs and remove what one that died left behind."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@yes_option
def rebuild(
    file: Path,
    pipeline: str | None,
    dry_run: bool,
    history: str | None,
    discard_others: bool,
    abandon: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Compute the table of PIPELINE in FILE anew, or of all pipelines of FILE, and swap the result in.

    The source is read from where the pipeline began, with the transform that FILE has now. The pipeline may
    run on; readers see the old table or the new one. What has no row after it (bad records) is in the
    dead-letter table once.

    \b
    frazil rebuild pipelines.yaml orders --dry-run
    frazil rebuild pipelines.yaml orders
    """
    if dry_run and abandon:
        # To abandon removes files, which nobody expects of a dry run.
        raise click.UsageError("Say --dry-run or --abandon, not both.")
    require_packages()
    pipelines = load(file, () if pipeline is None else (pipeline,))
    from frazil.stream.rebuild.loop import Wishes
    from frazil.stream.rebuild.possible import require_possible
    from frazil.stream.rebuild.run import rebuild as work

    for config in pipelines.pipelines:
        require_possible(config)
    names = ", ".join(config.name for config in pipelines.pipelines)
    if not (dry_run or abandon):
        confirm(f"Replace all rows of the table of {names}?", yes)
    wishes = Wishes(dry_run=dry_run, discard_others=discard_others, abandon=abandon, history=history)
    progress = _Progress()
    results, errors = with_spark(
        pipelines, lambda spark: work(pipelines, spark, observer=progress, wishes=wishes)
    )
    progress.end()
    _report(results, errors, as_json=as_json)
    if errors:
        sys.exit(1)


class _Progress:
    """On standard error: one line that changes, or a line now and then."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._next = time.monotonic() + _QUIET_SECONDS

    def notify(self, event: Event) -> None:
        from frazil.stream.events import RoundCommitted, RoundRetried

        if isinstance(event, RoundRetried):
            self.end()
            click.echo(f"{event.pipeline}: {plain(event.reason)}; trying again", err=True)
        if not isinstance(event, RoundCommitted):
            return
        left = f", {event.lag:,} to read" if event.lag else ""
        text = f"{event.pipeline}: {event.total_read:,} records read, {event.total_written:,} rows{left}"
        if self._live:
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _QUIET_SECONDS
            click.echo(text, err=True)

    def end(self) -> None:
        if self._live:
            click.echo("\r\x1b[K", err=True, nl=False)


def _report(results: Mapping[str, Rebuilt], errors: Mapping[str, FrazilError], *, as_json: bool) -> None:
    if as_json:
        print_json([_document(done) for done in results.values()])
    else:
        for done in results.values():
            _show(done)
    for error in errors.values():
        click.echo(f"frazil: {error.message}", err=True)


def _show(done: Rebuilt) -> None:
    click.echo(f"{done.table}: {done.read:,} records read, {done.after:,} rows (before: {done.before:,})")
    if done.difference is not None:
        click.echo(
            f"  would change: {done.difference.added:,} rows added, {done.difference.removed:,} removed; the "
            "table is as it was"
        )
    if done.bad:
        verb = "would be" if done.difference is not None else "are"
        click.echo(f"  {done.bad:,} records are bad; {done.letters:,} {verb} new dead letters")
    if done.put_back:
        click.echo(f"  {done.put_back:,} dead letters are good now, and rows")
    for note in done.notes:
        click.echo(plain(f"  note: {note}"))
    if done.snapshot_id is not None:
        click.echo(f"  swapped in: snapshot {done.snapshot_id}")


def _document(done: Rebuilt) -> dict[str, Any]:
    found = {
        "pipeline": done.pipeline,
        "table": done.table,
        "read": done.read,
        "bad": done.bad,
        "rows-before": done.before,
        "rows-after": done.after,
        "snapshot-id": done.snapshot_id,
        "new-dead-letters": done.letters,
        "dead-letters-put-back": done.put_back,
        "notes": list(done.notes),
    }
    if done.difference is not None:
        found |= {"added": done.difference.added, "removed": done.difference.removed}
    return found
