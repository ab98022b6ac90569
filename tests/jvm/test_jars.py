from __future__ import annotations

from pathlib import Path

import pytest

from frazil.core.errors import ServiceError
from frazil.jvm import jars, maven
from frazil.jvm.maven import Artifact

SMALL = Artifact("org.slf4j", "slf4j-simple", "2.0.17")


def write_settings(home: Path, text: str) -> None:
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(text)


def test_a_mirror_and_a_proxy_come_from_the_users_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert maven.mirror() is None
    write_settings(
        tmp_path,
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><mirrorOf>*</mirrorOf>'
        "<url>http://mirror.example/maven</url></mirror></mirrors><proxies><proxy><host>proxy.example</host>"
        "<port>3128</port></proxy></proxies></settings>",
    )
    assert maven.mirror() == "http://mirror.example/maven"
    assert 'root="http://mirror.example/maven"' in jars._settings()
    assert "-Dhttps.proxyHost=proxy.example" in maven.proxy_options()


def test_a_proxy_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://proxy.example:8080")
    monkeypatch.setenv("no_proxy", "localhost,.example")
    assert maven.proxy_options() == [
        "-Dhttp.proxyHost=proxy.example",
        "-Dhttp.proxyPort=8080",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=8080",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    ]


def test_coordinates() -> None:
    artifact = Artifact.parse("g:a:1:tests")
    assert artifact.file_name == "a-1-tests.jar"
    assert str(artifact) == "g:a:1:tests"
    archive = Artifact.parse("g:a:1@zip")
    assert (archive.file_name, str(archive)) == ("a-1.zip", "g:a:1@zip")
    with pytest.raises(ServiceError, match="group:name:version"):
        Artifact.parse("g:a")


@pytest.mark.parametrize("name", [jars.SPARK_ICEBERG, jars.HADOOP_S3A, jars.RCK, jars.KEYCLOAK, jars.KAFKA])
def test_every_jar_of_a_set_is_pinned(name: str) -> None:
    pins = jars._pins(name)
    assert pins
    assert all(len(digest) == 64 for digest in pins.values())
    assert len({artifact.file_name for artifact in pins}) == len(pins)


@pytest.mark.jvm
def test_jars_are_fetched_once_and_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))
    pins = {artifact: sha for artifact, sha in jars._pins(jars.RCK).items() if artifact == SMALL}
    monkeypatch.setattr(jars, "_pins", lambda name: pins)
    [jar] = jars.jars("small")
    assert jar.is_file()
    monkeypatch.setattr(jars, "fetch", lambda *_: pytest.fail("fetched twice"))
    assert jars.jars("small") == [jar]


@pytest.mark.jvm
def test_a_jar_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jars, "_pins", lambda name: {SMALL: "0" * 64})
    with pytest.raises(ServiceError, match="it was not used"):
        jars.jars("small")
    assert not list(tmp_path.glob("jars/small-*/*.jar"))
