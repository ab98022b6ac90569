"""`frazil plan`: what a run would do."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import connect, each, load
from frazil.cli.remote import plain, print_json
from frazil.core.durations import show_duration

if TYPE_CHECKING:
    from frazil.stream.plan import PipelinePlan, TablePlan, TopicPlan

_PATHS = {
    "fused": "fused: no transform, so rows go from the source to files inside the tasks",
    "spark": "Spark: records become a DataFrame, the transform runs, the same writer ends it",
}
#: Of a source with many topics only these are shown one by one; --json has all.
_TOPICS = 20
_LABEL = 12


@click.command(short_help="What a run would read, create and write, without doing it.")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1, metavar="[PIPELINE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of FILE, for editors, and end.")
def plan(file: Path | None, names: tuple[str, ...], as_json: bool, schema: bool) -> None:
    """What the pipelines of FILE would do, or those that are named.

    It checks the file, asks the catalog and Kafka, and changes nothing. The exit code is 1 if a pipeline
    could not run as things are.

    \b
    frazil plan pipelines.yaml
    frazil plan pipelines.yaml orders --json
    frazil plan --schema > pipelines.schema.json
    """
    if schema:
        click.echo(_published(), nl=False)
        return
    if file is None:
        raise click.UsageError("Say which file: frazil plan pipelines.yaml")
    pipelines = load(file, names)
    from frazil.stream.plan import pipeline_plan

    with connect(pipelines) as client:
        found = each(lambda config: pipeline_plan(config, client, pipelines.spark), pipelines)
        where = client.uri
    if as_json:
        print_json([document(one) for one in found])
    else:
        warehouse = pipelines.catalog.warehouse or "the server's default warehouse"
        click.echo(f"catalog {where}, {warehouse}; Spark {pipelines.spark.master}\n")
        click.echo("\n\n".join("\n".join(lines(one)) for one in found))
    if any(one.problems for one in found):
        sys.exit(1)


def document(found: PipelinePlan) -> dict[str, Any]:
    """For scripts."""
    table = found.table
    return {
        "pipeline": found.pipeline,
        "path": found.path,
        "begins": found.begins,
        "source": found.source,
        "topics": [_topic_document(topic) for topic in found.topics or ()],
        "offsets": found.offsets,
        "rounds": found.rounds,
        "tasks": found.tasks,
        "freshness-seconds": found.freshness,
        "limits": dataclasses.asdict(found.limits),
        "table": {
            "name": table.name,
            "exists": table.exists,
            "schema": table.schema.to_json() if table.schema is not None else None,
            "partitioning": list(table.partitioning),
            "format-version": table.format_version,
            "location": table.location,
        },
        "notes": list(found.notes),
        "problems": list(found.problems),
    }


def lines(found: PipelinePlan) -> list[str]:
    """For people."""
    facts = {
        "reads": _reads(found),
        "begins": found.begins,
        "path": _PATHS[found.path],
        **_table(found.table),
        "commits": _commits(found),
    }
    shown = [click.style(found.pipeline, bold=True)]
    for name, text in facts.items():
        shown += _labelled(name, plain(text))
    for note in found.notes:
        shown += _labelled("note", plain(note))
    for problem in found.problems:
        shown += [click.style(line, fg="red") for line in _labelled("problem", plain(problem))]
    return shown


def _labelled(name: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"  {name:<{_LABEL}}  {first}", *(f"  {'':<{_LABEL}}  {line}" for line in rest)]


def _reads(found: PipelinePlan) -> str:
    from frazil.stream.observe.texts import counted

    if found.topics is None:
        return found.source or "not known"
    shown = [
        f"{topic.name}: {counted(topic.offsets, 'offset')} in {counted(len(topic.ends), 'partition')} "
        f"({', '.join(f'{a} to {b}' for a, b in zip(topic.starts, topic.ends, strict=True))})"
        for topic in found.topics[:_TOPICS]
    ]
    if len(found.topics) > _TOPICS:
        shown.append(f"and {len(found.topics) - _TOPICS} more topics")
    return "\n".join(shown) or "no topic"


def _table(table: TablePlan) -> dict[str, str]:
    if table.exists is None:
        return {"table": f"{table.name} (not known whether it exists)"}
    state = "exists" if table.exists else "would be created"
    if "{" in table.name:
        state = "one for each value, created as they come"
    if table.creates_namespace:
        state += ", and its namespace"
    if table.format_version is None:
        facts = {"dataset": f"{table.name}: {state} (generic table, one file for each round)"}
        facts["columns"] = _columns(table)
    else:
        facts = {"table": f"{table.name}: {state} (Iceberg format {table.format_version})"}
        facts["columns"] = _columns(table)
        facts["partitioning"] = ", ".join(table.partitioning) or "none"
    facts["location"] = table.location or "chosen by the catalog"
    return facts


def _columns(table: TablePlan) -> str:
    from frazil.core.schema import show_type

    if table.schema is None:
        return "those that the transform gives"
    if not table.schema.fields:
        return "those of the source"
    width = max(len(one.name) for one in table.schema)
    return "\n".join(
        f"{one.name:<{width}}  {show_type(one.type)}{' not null' if one.required else ''}"
        for one in table.schema
    )


def _commits(found: PipelinePlan) -> str:
    from frazil.stream.observe.texts import count, counted

    every = f"every {show_duration(found.freshness)}"
    limit = f"at most {count(found.limits.records_per_round)} records each"
    if found.rounds is None or found.tasks is None:
        return f"{every}, {limit}"
    if not found.rounds:
        return f"{every}, {limit}; nothing to read now"
    rounds, tasks = counted(found.rounds, "round"), counted(found.tasks, "task")
    return f"{every}, {limit}; {rounds} to catch up, {tasks} in the first"


def _topic_document(topic: TopicPlan) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "starts": list(topic.starts),
        "ends": list(topic.ends),
        "offsets": topic.offsets,
    }


def _published() -> str:
    from importlib import resources

    file = resources.files("frazil.stream.config") / "pipelines.schema.json"
    return file.read_text("utf-8")
