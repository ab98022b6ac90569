"""What the documents say about the code is so."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.docs.blocks import DOCUMENTS, ROOT, blocks, name_of, table_after
from tests.docs.facts import TABLES

from frazil.jvm.jars import SPARK_ICEBERG, jars

RUN = {"sh", "python"}
SHOWN = {"text", "toml", "json", "yaml", "proto", "sql"}


@pytest.mark.parametrize("marker", TABLES)
def test_tables_repeat_the_code(marker: str) -> None:
    document, make = TABLES[marker]
    assert table_after(document, marker) == make(), "write it anew: python -m tests.docs.facts"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_block_has_a_known_language(document: Path) -> None:
    for block in blocks(document):
        assert block.language in RUN | SHOWN, f"{block}: {block.language!r}"
        if block.skipped:
            assert len(block.note) > len("not run: "), f"{block}: say why"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for target, place in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text("utf-8")):
        file = document.parent / target if target else document
        assert file.exists(), f"{document.name} links to {target}"
        assert not place or place in _places(file), f"{document.name} links to {target}#{place}"


def _places(document: Path) -> set[str]:
    """What headings are called in links, as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower() for heading in headings}


def test_toml_examples_are_settings() -> None:
    from frazil.catalog.settings import ServerSettings

    legal = {name.replace("_", "-") for name in ServerSettings.__dataclass_fields__}
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.language == "toml":
                assert set(tomllib.loads(block.text)) <= legal, str(block)


def test_json_examples_of_warehouses_are_accepted() -> None:
    from frazil.catalog.storage.credentials import parse_credential
    from frazil.catalog.storage.profiles import check_pair, parse_profile

    kinds = []
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.language == "json" and "storage-profile" in block.text:
                request = json.loads(block.text)
                profile = parse_profile(request["storage-profile"])
                check_pair(profile, parse_credential(request["storage-credential"]))
                kinds.append(request["storage-profile"]["type"])
    assert sorted(kinds) == ["adls", "gcs"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_yaml_examples_are_taken(document: Path, tmp_path: Path) -> None:
    """As pipelines, as a recipe of lineage, or as a configuration of hot tables if they are neither.

    The variables that they name are set, and the files that they name are beside them.
    """
    from frazil.hot.cluster import parse_cluster
    from frazil.lineage.flink.config import flink_config
    from frazil.stream.config import parse_pipelines

    for block in blocks(document):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    for block in blocks(document):
        if block.language != "yaml":
            continue
        environment = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "value")
        if re.search("^pipelines:", block.text, re.MULTILINE):
            assert parse_pipelines(block.text, str(block), environment, directory=tmp_path).pipelines
        elif "type: frazil-flink" in block.text:
            flink_config(yaml.safe_load(block.text)["source"]["config"])
        else:
            parse_cluster(block.text, str(block), environment)


def test_versions_are_those_that_are_tested() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    pinned = [
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
        *project["dependency-groups"]["test"],
    ]
    for name in ("pyspark==", "pyiceberg[pyarrow]==", "duckdb=="):
        (pin,) = {wanted for wanted in pinned if wanted.startswith(name)}
        assert pin in text
    lock = (ROOT / "src/frazil/jvm/locks/spark-iceberg.txt").read_text("utf-8")
    for coordinate in re.findall(r"org\.apache\.iceberg:[\w.-]+:[\d.]*\d", text):
        assert f"{coordinate} " in lock


@pytest.mark.jvm
def test_the_jars_of_the_readme_can_be_had() -> None:
    assert all(jar.is_file() for jar in jars(SPARK_ICEBERG))
