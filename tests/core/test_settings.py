from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.settings import resolve, setting


def stars(_value: str) -> str:
    return "***"


@dataclass(frozen=True)
class Sample:
    port: int = setting(8181, "A number.")
    verbose: bool = setting(False, "A switch.")
    where: Path = setting(Path("/tmp"), "A path.")  # noqa: RUF009
    name: str = setting("x", "A text.")
    secret_key: str | None = setting(None, "A secret.", mask=stars)


def toml(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "frazil.toml"
    file.write_text(text)
    return file


def test_flag_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = toml(tmp_path, 'port = 3\nname = "file"\nsecret-key = "file"\nverbose = true')
    environment = {"FRAZIL_PORT": "2", "FRAZIL_NAME": "environment", "OTHER_PORT": "9"}
    found = resolve(Sample, flags={"port": 1, "name": None}, environment=environment, file=file)
    assert found.values == Sample(port=1, name="environment", secret_key="file", verbose=True)
    assert found.origins == {
        "port": "flag --port",
        "name": "environment FRAZIL_NAME",
        "secret_key": f"file {file}",
        "verbose": f"file {file}",
        "where": "default",
    }


def test_a_flag_that_is_off_still_counts(tmp_path: Path) -> None:
    file = toml(tmp_path, "verbose = true\nport = 5")
    found = resolve(Sample, flags={"verbose": False, "port": 0}, environment={}, file=file)
    assert found.values.verbose is False
    assert found.values.port == 0


def test_secrets_are_masked_where_settings_are_shown() -> None:
    found = resolve(Sample, flags={"secret_key": "hunter2"}, environment={}, file=None)
    shown = {name: (value, origin) for name, value, origin in found.shown()}
    assert shown["secret-key"] == ("***", "flag --secret-key")
    assert shown["port"] == ("8181", "default")
    assert "hunter2" not in str(shown)
    nothing = resolve(Sample, flags={}, environment={}, file=None)
    assert ("secret-key", "", "default") in nothing.shown()


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes", "on", "On"])
def test_words_for_true(word: str) -> None:
    assert resolve(Sample, flags={}, environment={"FRAZIL_VERBOSE": word}, file=None).values.verbose is True


@pytest.mark.parametrize("word", ["false", "0", "no", "off"])
def test_words_for_false(word: str) -> None:
    assert resolve(Sample, flags={}, environment={"FRAZIL_VERBOSE": word}, file=None).values.verbose is False


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PORT", "x"), ("PORT", ""), ("PORT", "1.5"), ("VERBOSE", "maybe"), ("VERBOSE", ""), ("VERBOSE", "2")],
)
def test_wrong_values_in_the_environment(variable: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"FRAZIL_{variable}"):
        resolve(Sample, flags={}, environment={f"FRAZIL_{variable}": value}, file=None)


@pytest.mark.parametrize(
    "text",
    [
        "port = 'x'",
        "port = true",
        "port = [1]",
        "verbose = 5",
        "where = 5",
        "name = []",
        "name = {}",
        "name = 1.5",
    ],
)
def test_wrong_types_in_the_file(tmp_path: Path, text: str) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(InvalidConfig, match=r"frazil\.toml"):
        resolve(Sample, flags={}, environment={}, file=file)


def test_a_path_is_a_path(tmp_path: Path) -> None:
    file = toml(tmp_path, 'where = "/a/b"')
    assert resolve(Sample, flags={}, environment={}, file=file).values.where == Path("/a/b")


def test_an_unknown_key_in_the_file_is_named_with_the_legal_ones(tmp_path: Path) -> None:
    file = toml(tmp_path, "prot = 5\nport = 5")
    with pytest.raises(InvalidConfig, match=r"'prot'.*port, verbose, where, name, secret-key"):
        resolve(Sample, flags={}, environment={}, file=file)
    underscored = toml(tmp_path, "secret_key = 'x'")
    with pytest.raises(InvalidConfig, match="secret_key"):
        resolve(Sample, flags={}, environment={}, file=underscored)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="does not exist"):
        resolve(Sample, flags={}, environment={}, file=tmp_path / "none.toml")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        resolve(Sample, flags={}, environment={}, file=toml(tmp_path, "port = = 5"))
    with pytest.raises(InvalidConfig, match="cannot be read"):
        resolve(Sample, flags={}, environment={}, file=tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        resolve(Sample, flags={}, environment={}, file=binary)
