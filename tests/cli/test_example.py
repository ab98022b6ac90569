"""`frazil example sensors`: its settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.example_sensors import pipeline
from frazil.cli.example_settings import Settings, read_settings
from frazil.cli.main import cli
from frazil.core.errors import InvalidConfig
from frazil.stream.config.model import SensorSource

EXAMPLE = Path(__file__).parents[2] / "examples" / "sensors" / ".env.local.example"


def test_without_any_settings() -> None:
    assert Settings.of({}) == Settings(None, None, ("iot",), "sensor-readings", 5, None, 10, 15000)


def test_the_warehouse_of_all_commands_will_do() -> None:
    given = {"FRAZIL_WAREHOUSE": "lake"}
    assert Settings.of(given).warehouse == "lake"
    assert Settings.of({**given, "WAREHOUSE_ID": "mine"}).warehouse == "mine"


def test_the_file_that_is_there_to_be_copied_says_the_same() -> None:
    environment: dict[str, str] = {}
    assert read_settings([EXAMPLE], environment) == Settings.of({"LAKEKEEPER": "http://localhost:8181"})
    # What is left empty there is not set.
    assert "TOKEN" not in environment
    text = EXAMPLE.read_text()
    for name in ("TOKEN", "OAUTH_TOKEN_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPE"):
        assert f"\n{name}=\n" in text


def test_the_environment_counts_more(tmp_path: Path) -> None:
    file = tmp_path / ".env.local"
    file.write_text("# mine\nexport BATCH_SIZE = '7'\nTABLE=t # a remark\n\nNUM_RECORDS=3\nPATH=/nowhere\n")
    environment = {"NUM_RECORDS": "4", "NAMESPACE": "a.b"}
    found = read_settings([tmp_path / "none", file], environment)
    assert (found.batch_size, found.table, found.records, found.namespace) == (7, "t", 4, ("a", "b"))
    assert "PATH" not in environment


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('TOKEN="a b" # a remark', "a b"),
        ("TOKEN='a # b'\t# a remark", "a # b"),
        ("TOKEN=a#b\t# a remark", "a#b"),
        ("TOKEN= # nobody", None),
        ('TOKEN="a"b"', 'a"b'),
        ("\ufeffTOKEN=a", "a"),
    ],
)
def test_remarks_and_quotes(tmp_path: Path, line: str, value: str | None) -> None:
    file = tmp_path / ".env.local"
    file.write_text(f"{line}\n", "utf-8")
    environment: dict[str, str] = {}
    read_settings([file], environment)
    assert environment.get("TOKEN") == value


def test_nobody_is_half_of_two(tmp_path: Path) -> None:
    file = tmp_path / ".env.local"
    file.write_text("TOKEN=from-the-file\n")
    environment = {"OAUTH_CLIENT_ID": "me", "OAUTH_CLIENT_SECRET": "s"}
    read_settings([file], environment)
    assert "TOKEN" not in environment
    environment = {}
    read_settings([file], environment)
    assert environment == {"TOKEN": "from-the-file"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NUM_SENSORS", "0", "NUM_SENSORS is '0'; legal: a whole number from 1 to 1000000"),
        ("NUM_SENSORS", "many", "NUM_SENSORS is 'many'"),
        ("NUM_RECORDS", "-2", "NUM_RECORDS is '-2'; legal: .* or -1 for no end"),
        ("BATCH_SIZE", "1.5", "BATCH_SIZE is '1.5'"),
        ("BATCH_INTERVAL_MS", "-1", "BATCH_INTERVAL_MS is '-1'"),
        ("BATCH_INTERVAL_MS", "9" * 30, "BATCH_INTERVAL_MS is"),
        ("NAMESPACE", "a..b", "NAMESPACE: "),
        ("TABLE", "a/b\x00", "TABLE: "),
    ],
)
def test_settings_that_cannot_be(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        Settings.of({name: value})


def test_a_line_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / ".env.local"
    file.write_text("TABLE=t\nsesame open\n")
    with pytest.raises(InvalidConfig, match="line 2") as found:
        read_settings([file], {})
    assert "sesame" not in str(found.value)


def test_it_says_which_setting_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATCH_SIZE", "ten")
    answer = CliRunner().invoke(cli, ["example", "sensors"])
    assert answer.exit_code == 1
    assert answer.output.startswith("frazil: BATCH_SIZE is 'ten'; legal")


def test_the_pipeline_takes_whole_batches() -> None:
    config = pipeline(Settings.of({"NUM_RECORDS": "25"}))
    assert config.name == "sensors-5x10-15000ms"
    assert config.source == SensorSource(5, 10 / 15, 25, batch=10, live=True)
    assert config.limits.records_per_round == 10
    other = pipeline(Settings.of({"NUM_SENSORS": "6"}))
    # Its readings have the same numbers: it must not go on where the first one was.
    assert other.name != config.name
