from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from frazil.core.schema import Schema
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.json import JsonDecoder

Make = Callable[[Schema, JsonFormat], JsonDecoder]


@pytest.fixture
def native() -> Any:
    """The native module. Where it can be built it has to be there."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, so no native decoder")
    from frazil.stream import _json

    return _json


@pytest.fixture(params=["native", "reference"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds decoders: each test runs over both kinds."""
    if request.param == "native":
        request.getfixturevalue("native")
    monkeypatch.setenv("FRAZIL_NATIVE", "1" if request.param == "native" else "0")

    def build(schema: Schema, format: JsonFormat) -> JsonDecoder:  # noqa: A002
        decoder = JsonDecoder(schema, format)
        assert type(decoder._reader).__name__.lower().startswith(request.param)
        return decoder

    return build
