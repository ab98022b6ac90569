"""Examples in docstrings say what the code says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import frazil

_ROOT = Path(frazil.__file__).parent
_MODULES = sorted(
    ".".join(path.relative_to(_ROOT.parent).with_suffix("").parts)
    for path in _ROOT.rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", _MODULES)
def test_examples_hold(name: str) -> None:
    """Those that need a service are marked `+SKIP` where they stand."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
