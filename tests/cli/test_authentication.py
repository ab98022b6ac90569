"""Whom `frazil serve` lets in, and where it refuses to start."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import clean_environment, frazil

pytestmark = pytest.mark.services

TOKEN = "correct-horse-battery-staple-0123456789"


def started(data_dir: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What the server says until it is ready; it is stopped then."""
    command = [sys.executable, "-m", "frazil.cli", "serve", "--port", "0", "--data-dir", str(data_dir)]
    server = subprocess.Popen(
        [*command, *arguments],
        env={**clean_environment(), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        text = ""
        while "Press Ctrl-C" not in text:
            line = server.stdout.readline()
            assert line, server.communicate()[1]
            text += line
        server.send_signal(signal.SIGTERM)
        return text + server.communicate(timeout=60)[1]
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_addresses_than_loopback_need_authentication(tmp_path: Path, host: str) -> None:
    failed = frazil("serve", "--host", host, "--port", "0", "--data-dir", str(tmp_path))
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    for word in (
        host,
        "--openid-provider-uri",
        "frazil client create",
        "FRAZIL_BOOTSTRAP_TOKEN",
        "--insecure",
    ):
        assert word in failed.stderr
    assert "is ready" not in failed.stdout


def test_insecure_is_a_word_that_must_be_said(tmp_path: Path) -> None:
    text = started(tmp_path, "--host", "0.0.0.0", "--insecure")
    assert "Authentication         none" in text
    assert "there is no authentication: whoever reaches 0.0.0.0 may do anything" in text


def test_a_static_token_is_enough(tmp_path: Path) -> None:
    text = started(tmp_path, "--host", "0.0.0.0", environment={"FRAZIL_BOOTSTRAP_TOKEN": TOKEN})
    assert "Authentication         client, bootstrap-token" in text
    assert TOKEN not in text


def test_a_client_is_enough(tmp_path: Path) -> None:
    assert frazil("client", "create", "etl", "--data-dir", str(tmp_path)).returncode == 0
    text = started(tmp_path, "--host", "0.0.0.0")
    assert "Authentication         client\n" in text
    assert "OAUTH_CLIENT_ID=NAME" in text
    assert re.search(r'\*\*{"oauth2-server-uri": "http://0.0.0.0:\d+/catalog/v1/oauth/tokens"}', text)


def test_a_provider_is_enough_and_a_missing_audience_is_said(tmp_path: Path) -> None:
    provider = ("--openid-provider-uri", "http://127.0.0.1:9/realm")
    text = started(tmp_path, "--host", "0.0.0.0", *provider)
    assert "Authentication         oidc, client" in text
    assert "openid-audience is not set" in text
    assert "openid-audience is not set" not in started(tmp_path, *provider, "--openid-audience", "frazil")


def test_loopback_works_as_it_is(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "127.0.0.2", "localhost"):
        text = started(tmp_path, "--host", host)
        assert "Authentication         none" in text
        assert "OAUTH_CLIENT_ID" not in text


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"FRAZIL_BOOTSTRAP_TOKEN": "hunter2"}, "at least 32 characters"),
        ({"FRAZIL_BOOTSTRAP_TOKEN": "hunter2 " * 8}, "at least 32 characters"),
        ({"FRAZIL_BOOTSTRAP_TOKEN": ""}, "at least 32 characters"),
        ({"FRAZIL_OPENID_AUDIENCE": "frazil"}, "openid-provider-uri is not"),
        ({"FRAZIL_OPENID_PROVIDER_URI": "http://idp.example/realm"}, "https"),
        ({"FRAZIL_OPENID_PROVIDER_URI": "idp.example"}, "https"),
        ({"FRAZIL_OPENID_PROVIDER_URI": "https://a.example,https://b.example"}, "two providers"),
        ({"FRAZIL_OPENID_PROVIDER_URI": "client=https://a.example"}, "'client'"),
        ({"FRAZIL_OPENID_PROVIDER_URI": "A B=https://a.example"}, "cannot name a provider"),
        (
            {"FRAZIL_OPENID_PROVIDER_URI": "https://a.example", "FRAZIL_OPENID_ADDITIONAL_ISSUERS": "b=x"},
            "no provider 'b'",
        ),
        ({"FRAZIL_CLOCK_SKEW_SECONDS": "3600"}, "between 0 and 300"),
    ],
)
def test_settings_that_cannot_be_meant(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    failed = frazil("serve", "--port", "0", "--data-dir", str(tmp_path), environment=environment)
    assert failed.returncode == 1
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "hunter2" not in failed.stderr


def test_the_static_token_is_not_shown_and_is_no_flag(tmp_path: Path) -> None:
    shown = frazil("serve", "--show-config", environment={"FRAZIL_BOOTSTRAP_TOKEN": TOKEN}).stdout
    assert "bootstrap-token" in shown
    assert TOKEN not in shown
    assert "--bootstrap-token" not in frazil("serve", "--help").stdout
