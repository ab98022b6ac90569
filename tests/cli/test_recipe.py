from __future__ import annotations

import json
from pathlib import Path

import pytest
from datahub.configuration.config_loader import resolve_env_variables

from frazil.cli.recipe import read_recipe
from frazil.core.errors import InvalidConfig

ENVIRONMENT = {"TOKEN": "t0ken", "EMPTY": "", "OTHER": "other"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def read(tmp_path: Path, config: object) -> dict[str, object]:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps({"source": {"type": "frazil-flink", "config": config}}))
    return read_recipe(recipe)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "${TOKEN}",
        "a ${TOKEN} and ${OTHER}",
        "${EMPTY}",
        "$TOKEN",
        "$TOKEN-$OTHER",
        "${TOKEN} $OTHER",
        "${UNSET:-default}",
        "${UNSET-default}",
        "${EMPTY:-default}",
        "${UNSET:-}",
        "${UNSET:=default}",
        "${UNSET:-${OTHER}}",
        "${UNSET:-${EMPTY}}",
        "${UNSET:-{}}",
        "${TOKEN:+set}${UNSET:+set}",
        "${TOKEN:?missing}",
        r"${TOKEN}\$TOKEN\\",
        r"${TOKEN}\d+$",
        # Not variables: a password, and the ends of patterns.
        "$word",
        "$$word",
        "$TOKEN$word",
        "not $TOKEN",
        "orders$",
        "not ${TOKEN",
    ],
)
def test_variables_are_put_in_as_datahub_does(tmp_path: Path, text: str) -> None:
    config = {"a": text, "b": [text, [text], {"c": text}], "n": 7}
    assert read(tmp_path, config) == resolve_env_variables(config, dict(ENVIRONMENT))


def test_a_variable_that_is_not_set_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"source\.config\.connection\.token: .* UNSET is not set"):
        read(tmp_path, {"connection": {"token": "${UNSET}"}})
    with pytest.raises(InvalidConfig, match=r"source\.config\.a\[0\]: UNSET: ask Bob"):
        read(tmp_path, {"a": ["${UNSET:?ask Bob}"]})


@pytest.mark.parametrize(
    "text", ["${!TOKEN}", "s3cret${TOKEN }", "${TOKEN}$$", "${TOKEN:0:2}", "${}", "${TOKEN"]
)
def test_what_is_no_variable_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"source\.config\.a: a variable is \$\{NAME\}") as refused:
        read(tmp_path, {"a": text})
    assert "s3cret" not in refused.value.message


def test_variables_of_what_is_not_used_need_not_be_set(tmp_path: Path) -> None:
    config = {"connection": {"rest_api_url": "${UNSET}"}, "stateful_ingestion": {"enabled": "${UNSET}"}}
    assert read(tmp_path, config) == {"connection": {}}


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_bytes(b"\xff\xfe\x00source")
    with pytest.raises(InvalidConfig, match="is not UTF-8 text"):
        read_recipe(recipe)
