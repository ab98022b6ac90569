"""The published JSON schema: the loader and it say the same."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tests.stream.config.examples import COMPLETE, ENVIRONMENT, read_as_editor
from tests.stream.config.wrong import cases

from frazil.core.errors import InvalidConfig
from frazil.stream.config import parse_pipelines
from frazil.stream.config.keys import json_schema

Mutation = Callable[[Any, random.Random], Any]
_ROUNDS = 150


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(json_schema())


def accepted(document: Any) -> bool:
    text = yaml.safe_dump(document, sort_keys=False)
    try:
        parse_pipelines(text, environment=ENVIRONMENT)
    except InvalidConfig:
        return False
    return True


def test_the_published_file_is_up_to_date() -> None:
    file = resources.files("frazil.stream.config") / "pipelines.schema.json"
    written = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    assert file.read_text("utf-8") == written, "write it anew: python -m tests.stream.config.test_schema"


def test_the_schema_is_one() -> None:
    assert jsonschema_rs.meta.is_valid(json_schema())


def test_every_key_is_described() -> None:
    def properties(node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, dict):
            if node.get("additionalProperties") is False:
                yield from node["properties"].items()
            for inner in node.values():
                yield from properties(inner)
        elif isinstance(node, list):
            for inner in node:
                yield from properties(inner)

    found = list(properties(json_schema()))
    assert len(found) > 30
    assert all(len(spec["description"]) > 10 for _, spec in found)


def test_a_complete_file_is_valid(validator: jsonschema_rs.Validator) -> None:
    document = read_as_editor(COMPLETE)
    assert [error.message for error in validator.iter_errors(document)] == []
    del document["defaults"]
    assert validator.is_valid(document)
    del document["pipelines"]["orders"]["table"]
    assert not validator.is_valid(document)
    document["defaults"] = {"table": "shop.orders"}
    assert validator.is_valid(document)


STRUCTURE = (
    "no mapping",
    "no pipelines",
    "an empty mapping of pipelines",
    "an unknown key at the top",
    "an unknown key of a pipeline",
    "unknown keys further inside",
    "missing keys",
    "topics and a pattern",
    "topics that cannot be",
    "offsets that are none",
    "settings that are frazil's own",
    "another format",
    "other timestamps",
    "a column without a type",
    "a freshness without a unit, and one that is too short",
    "sizes and compression",
    "properties that are frazil's own",
    "limits",
    "names of pipelines",
    "more than twenty",
)


@pytest.mark.parametrize("name", STRUCTURE)
def test_editors_see_what_the_loader_sees(name: str, validator: jsonschema_rs.Validator) -> None:
    (case,) = [case for case in cases() if case.name == name]
    assert not validator.is_valid(read_as_editor(case.yaml))


def _rename(table: dict[str, Any], chance: random.Random) -> None:
    key = chance.choice(list(table))
    table[f"{key}x"] = table.pop(key)


def _drop(table: dict[str, Any], chance: random.Random) -> None:
    del table[chance.choice(list(table))]


def _replace(table: dict[str, Any], chance: random.Random) -> None:
    key = chance.choice(list(table))
    table[key] = chance.choice([None, [], {}, {"x": "y"}, [["x"]], True, 7, "word"])


def _records(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The mappings with known keys: what is in the others is for checks that a schema cannot say."""
    orders = document["pipelines"]["orders"]
    found = [document, document["catalog"], document["spark"], document["defaults"], orders]
    return [*found, orders["source"], orders["format"]["json"], orders["files"], orders["limits"]]


def test_random_mutations_are_judged_alike(validator: jsonschema_rs.Validator) -> None:
    """Of structure and kinds of values: what one refuses, the other refuses too."""
    chance = random.Random(5)
    base = read_as_editor(COMPLETE)
    refused = 0
    for _ in range(_ROUNDS):
        document = copy.deepcopy(base)
        mutate = chance.choice([_rename, _drop, _replace])
        mutate(chance.choice(_records(document)), chance)
        valid = validator.is_valid(document)
        refused += not valid
        if not valid:
            assert not accepted(document), yaml.safe_dump(document)
        else:
            # A word may still be no type, no column, no number with a unit.
            assert accepted(document) or mutate is not _rename, yaml.safe_dump(document)
    assert _ROUNDS / 3 < refused < _ROUNDS


if __name__ == "__main__":
    target = Path(str(resources.files("frazil.stream.config") / "pipelines.schema.json"))
    target.write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")
