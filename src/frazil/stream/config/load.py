"""`pipelines.yaml` into pipelines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from frazil.core.errors import InvalidConfig
from frazil.stream.config import build
from frazil.stream.config.build_source import plain
from frazil.stream.config.keys import DEFAULTS, FILE, PIPELINE
from frazil.stream.config.model import KafkaSource, PipelineConfig, Pipelines
from frazil.stream.config.nodes import Problems, Table
from frazil.stream.config.shapes import Found, merged
from frazil.stream.config.yaml import parse

_BROKERS = ("bootstrap.servers", "metadata.broker.list")


def load_pipelines(path: str | Path, environment: Mapping[str, str] | None = None) -> Pipelines:
    """The pipelines of a file; InvalidConfig lists all that is wrong with it, each with its line.

    `${NAME}` in a value is taken from `environment`, else from that of the process.
    """
    file = Path(path)
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{file} is not UTF-8 text") from None
    return parse_pipelines(text, str(path), environment, directory=file.resolve().parent)


def parse_pipelines(
    text: str,
    name: str = "pipelines.yaml",
    environment: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
) -> Pipelines:
    """The same of text; messages call it `name`, and modules of transforms are looked for in `directory`."""
    problems = Problems()
    environment = os.environ if environment is None else environment
    root = parse(text, name, environment, problems)
    if root is None:
        raise InvalidConfig(f"{name}: there is nothing in it; it needs 'pipelines'")
    found = FILE.read(root, problems, "the file")
    if not isinstance(found, Found) or not isinstance(root, Table):
        problems.check()
        raise AssertionError("what is no mapping is a problem")
    pipelines = _pipelines(root, found.get("kafka"), build.Builder(problems, directory))
    problems.check()
    return Pipelines(
        build.catalog(found.get("catalog"), environment), build.spark(found.get("spark")), pipelines
    )


def _pipelines(root: Table, kafka: Found | None, builder: build.Builder) -> tuple[PipelineConfig, ...]:
    """Each with the defaults under it; what was found wrong before is not told again."""
    problems = builder.problems
    _, listed = root.entries.get("pipelines", (root.place, None))
    _, defaults = root.entries.get("defaults", (root.place, Table({}, root.place)))
    if not isinstance(listed, Table):
        return ()
    if not listed.entries:
        problems.add(listed.place, "pipelines: there is none")
    shared, made = plain(kafka), []
    for name, (place, node) in listed.entries.items():
        where = f"pipeline '{name}'"
        whole = merged(DEFAULTS, defaults, node)
        if isinstance(whole, Table):
            # What is missing is missed where the name stands.
            whole = Table(whole.entries, place)
        found = PIPELINE.read(whole, problems, where)
        if isinstance(found, Found):
            made.append(builder.pipeline(name, found, shared))
            source = found.get("source")
            own = None if source is None else source.get("settings")
            if _reads_kafka(source) and not _brokers_written(kafka, own):
                problems.add(
                    found.place_of("source"),
                    f"{where} has no brokers: write 'bootstrap.servers' under 'kafka' or under 'settings' of "
                    "its source",
                )
    return tuple(made)


def _reads_kafka(source: Found | None) -> bool:
    return source is None or not {"files", "sensors", "table", "postgres"} & set(source.nodes)


def _brokers_written(*settings: Found | None) -> bool:
    """Also as something that could not be read: that was told already."""
    return any(name in found.nodes for name in _BROKERS for found in settings if found is not None)


def has_brokers(pipeline: PipelineConfig) -> bool:
    """Whether it is known which cluster to ask, if any."""
    source = pipeline.source
    return not isinstance(source, KafkaSource) or any(source.settings.get(name) for name in _BROKERS)
