from __future__ import annotations

import pytest

from frazil.catalog.outgoing import http_client


@pytest.mark.parametrize(
    ("url", "by_proxy"),
    [
        ("https://sts.eu-central-1.amazonaws.com", True),
        ("https://127.0.0.1:9000", False),
        ("https://localhost:9000", False),
        ("http://minio.internal:9000", False),
        ("http://169.254.169.254/metadata", False),
    ],
)
async def test_the_proxy_of_the_environment_is_for_what_is_outside(
    monkeypatch: pytest.MonkeyPatch, url: str, by_proxy: bool
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with http_client(url, timeout=1) as client:
        assert bool(client._mounts) == by_proxy
        assert not client.follow_redirects
